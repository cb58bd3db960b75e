/* What a stand-in is told to do wrong: RKNNTUI_EMULATED_<name>, or a line <name>=<value> of the file
 * `emulated.conf` beside the library, which may change while it runs. */
#ifndef RKNNTUI_SETTINGS_H
#define RKNNTUI_SETTINGS_H

#include <stddef.h>

enum { SETTING = 512 };

/* Whether there is a setting of this name; its text goes to `value`. */
int setting(const char *name, char value[SETTING]);
/* Whether one is there and is this text. */
int setting_is(const char *name, const char *value);
/* The folder of the library, without a slash at the end. */
void own_folder(char *folder, size_t room);
/* Hang, crash, or the negative code to return, as HANG, CRASH and FAIL say for this call; else 0. */
int fault(const char *call);

#endif
