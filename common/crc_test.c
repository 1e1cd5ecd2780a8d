#include "common/crc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* The check values of the two in the catalogue of CRCs, and RFC 3720's. */
static void known_values(void **state) {
    (void)state;
    assert_int_equal(co_crc(CO_CRC32, 0, "123456789", 9), 0xCBF43926U);
    assert_int_equal(co_crc(CO_CRC32C, 0, "123456789", 9), 0xE3069283U);
    assert_int_equal(co_crc(CO_CRC32C, 0, (unsigned char[32]){0}, 32), 0x8A9136AAU);
    assert_int_equal(co_crc(CO_CRC32, 0, NULL, 0), 0);
}

static void crc_of_pieces_equals_crc_of_the_whole(void **state) {
    (void)state;
    unsigned char data[100];
    for (unsigned i = 0; i < sizeof(data); i++) {
        data[i] = (unsigned char)(i * 7);
    }
    for (size_t cut = 0; cut <= sizeof(data); cut++) {
        uint32_t c = co_crc(CO_CRC32C, 0, data, cut);
        assert_int_equal(co_crc(CO_CRC32C, c, data + cut, sizeof(data) - cut),
            co_crc(CO_CRC32C, 0, data, sizeof(data)));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_values),
        cmocka_unit_test(crc_of_pieces_equals_crc_of_the_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
