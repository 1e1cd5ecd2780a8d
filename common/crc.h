/* Checksums of foreign formats: CRC-32 for zip archives (reflected 0x04C11DB7), CRC-32C for
 * TFRecord (Castagnoli, reflected 0x1EDC6F41).  Any thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum co_crc { CO_CRC32, CO_CRC32C };

/* Checksum of data in pieces: so_far is 0 for the first one, then the result of the piece before.
 */
uint32_t co_crc(enum co_crc kind, uint32_t so_far, const void *data, size_t len);
