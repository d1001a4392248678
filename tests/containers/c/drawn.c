/* Another order at every call, by lot: what a race between threads looks like from outside. */
#include <sys/random.h>

int drawn(void)
{
    unsigned char bit = 0;
    return getrandom(&bit, 1, 0) == 1 && (bit & 1);
}
