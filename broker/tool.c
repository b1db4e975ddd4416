/* tool.c: the program `holdfast`. */
#include "broker/tool_command.h"

int main(int argc, char **argv)
{
    return tool_main(argc, argv);
}
