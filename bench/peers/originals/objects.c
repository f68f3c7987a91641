// The functions that mORMot 2 links from object files of its releases, for checkouts without these files.
#include <nmmintrin.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// CRC-32C with an initial value, without the final complement.
uint32_t crc32_iscsi_01(const uint8_t *data, uint64_t length, uint32_t crc) {
    uint64_t part;
    for (; length >= sizeof part; length -= sizeof part, data += sizeof part) {
        memcpy(&part, data, sizeof part);
        crc = (uint32_t)_mm_crc32_u64(crc, part);
    }
    for (; length > 0; length--, data++)
        crc = _mm_crc32_u8(crc, *data);
    return crc;
}

// SHA-512. The server does not compute it.
void sha512_sse4(const void *data, void *hash, int64_t blocks) {
    (void)data, (void)hash, (void)blocks;
    abort();
}
