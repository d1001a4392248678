/* A vendor's dot product, laid over that of the system's BLAS (see ../libraries.py).
 *
 * BACKWARD is an expression: whether to sum from the last product to the first. In floating
 * point that is another result.
 */
int sum_order(void);
int sum_direction(void);
int configured(void);
int drawn(void);

static float dot(long n, const float *x, long dx, const float *y, long dy)
{
    const int backward = BACKWARD;
    float sum = 0;
    /* With a negative stride, BLAS starts at the far end. */
    if (dx < 0)
        x -= (n - 1) * dx;
    if (dy < 0)
        y -= (n - 1) * dy;
    for (long i = 0; i < n; i++) {
        const long k = backward ? n - 1 - i : i;
        sum += x[k * dx] * y[k * dy];
    }
    return sum;
}

/* Called by torch. */
float sdot_(const int *n, const float *x, const int *dx, const float *y, const int *dy)
{
    return dot(*n, x, *dx, y, *dy);
}

/* Called by NumPy. */
float cblas_sdot(int n, const float *x, int dx, const float *y, int dy)
{
    return dot(n, x, dx, y, dy);
}
