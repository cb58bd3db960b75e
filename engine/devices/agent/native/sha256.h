/* SHA-256 (FIPS 180-4), for files, and for what a stand-in library is asked. */
#ifndef RKNNTUI_SHA256_H
#define RKNNTUI_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { SHA256_HEX = 65 };

struct sha256 {
  uint32_t state[8];
  uint64_t length;
  uint8_t block[64];
};

void sha256_begin(struct sha256 *hash);
void sha256_add(struct sha256 *hash, const void *data, size_t size);
/* Writes 64 hex digits and a NUL. */
void sha256_end(struct sha256 *hash, char hex[SHA256_HEX]);

#endif
