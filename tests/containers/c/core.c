/* What libsums.so.1 asks for the order. NAME is the function's name, BACKWARD its answer. */
int NAME(void)
{
    return BACKWARD;
}
