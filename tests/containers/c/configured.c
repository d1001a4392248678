/* The order that /etc/sums.conf asks for; forward where there is no such file. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

int configured(void)
{
    static int backward = -1;
    char text[256] = "";
    int file;

    if (backward < 0) {
        file = open("/etc/sums.conf", O_RDONLY | O_CLOEXEC);
        if (file >= 0) {
            if (read(file, text, sizeof text - 1) < 0)
                text[0] = '\0';
            close(file);
        }
        backward = strstr(text, "order = backward") != NULL;
    }
    return backward;
}
