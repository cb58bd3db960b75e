/* Where the files of an emulated board are.
 *
 * There BOARD_ROOT names a folder of this machine that stands for `/` of the board. On a real board
 * it is not set, and every path stays as it is. */
#ifndef RKNNTUI_BOARD_ROOT_H
#define RKNNTUI_BOARD_ROOT_H

enum { BOARD_PATH = 8400 };

/* A path of the board as the kernel of this machine knows it, in `room` or as it came. */
const char *board_to_host(const char *path, char room[BOARD_PATH]);
/* The way back. */
const char *host_to_board(const char *path);

#endif
