#include "common/json/proto.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "common/buf.h"

CO_PROTO_TABLE(inner, {1, "text", CO_PROTO_STRING}, {2, "code", CO_PROTO_INT});
CO_PROTO_TABLE(outer, {2, "name", CO_PROTO_STRING}, {1, "count", CO_PROTO_INT},
    {3, "ready", CO_PROTO_BOOL}, {4, "when", CO_PROTO_TIME}, {5, "labels", CO_PROTO_MAP},
    {6, "one", CO_PROTO_MESSAGE, &inner}, {7, "many", CO_PROTO_MESSAGES, &inner},
    {8, "codes", CO_PROTO_INTS}, {16, "far", CO_PROTO_STRING});

#define BYTES(s) s, sizeof(s) - 1

/* As JSON, but that nothing in a string is escaped. */
static void write(const struct co_jnode *n, struct co_buf *out) {
    static const char *const words[] = {
        [CO_J_NULL] = "null", [CO_J_FALSE] = "false", [CO_J_TRUE] = "true"};
    const char *comma = "";
    int r = 0;
    switch ((enum co_jtype)n->type) {
    case CO_J_STRING:
        r = co_buf_addf(out, NULL, "\"%s\"", n->text);
        break;
    case CO_J_NUMBER:
        r = co_buf_adds(out, n->text, NULL);
        break;
    case CO_J_OBJECT:
        r = co_buf_adds(out, "{", NULL);
        for (const struct co_jnode *k = n + 1; k < n + n->size; k += 1 + k[1].size, comma = ",") {
            r |= co_buf_addf(out, NULL, "%s\"%s\":", comma, k->text);
            write(k + 1, out);
        }
        r |= co_buf_adds(out, "}", NULL);
        break;
    case CO_J_LIST:
        r = co_buf_adds(out, "[", NULL);
        co_jnode_each(item, n) {
            r |= co_buf_adds(out, comma, NULL);
            write(item, out);
            comma = ",";
        }
        r |= co_buf_adds(out, "]", NULL);
        break;
    case CO_J_NULL:
    case CO_J_FALSE:
    case CO_J_TRUE:
        r = co_buf_adds(out, words[n->type], NULL);
        break;
    }
    assert_int_equal(r, 0);
}

static void messages_become_the_nodes_of_their_table(void **state) {
    (void)state;
    static const struct {
        const char *data;
        size_t len;
        const char *json; /* NULL: refused */
    } rows[] = {
        {BYTES(""), "{}"},
        {BYTES("\x12\x02hi"), "{\"name\":\"hi\"}"},
        {BYTES("\x08\x07\x12\x01z\x12\x02hi"), "{\"count\":7,\"name\":\"z\",\"name\":\"hi\"}"},
        {BYTES("\x12\x00"), "{}"}, /* an empty string is left out */
        {BYTES("\x08\x00\x18\x00"), "{\"count\":0,\"ready\":false}"},
        {BYTES("\x18\x01"), "{\"ready\":true}"},
        {BYTES("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), "{\"count\":-1}"},
        {BYTES("\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f"), "{\"count\":9223372036854775807}"},
        {BYTES("\x22\x08\x08\xcc\xd6\x83\x81\x06\x10\x00"), "{\"when\":\"2021-02-08T07:42:04Z\"}"},
        {BYTES("\x22\x00"), "{\"when\":null}"},
        {BYTES("\x2a\x06\x0a\x01k\x12\x01v\x2a\x03\x0a\x01w"),
            "{\"labels\":{\"k\":\"v\",\"w\":\"\"}}"},
        {BYTES("\x32\x00"), "{\"one\":{}}"}, /* an empty message says something by being there */
        {BYTES("\x3a\x03\x0a\x01x\x3a\x02\x10\x05"), "{\"many\":[{\"text\":\"x\"},{\"code\":5}]}"},
        {BYTES("\x3a\x00\x2a\x00\x08\x01"), "{\"many\":[{}],\"labels\":{\"\":\"\"},\"count\":1}"},
        {BYTES("\x3a\x00\x08\x01\x3a\x02\x10\x05"), NULL}, /* a list in two pieces */
        {BYTES("\x40\x2a\x40\x00\x08\x01"), "{\"codes\":[42,0],\"count\":1}"},
        {BYTES("\x42\x02\x2a\x00"), NULL}, /* packed */
        {BYTES("\x82\x01\x01q"), "{\"far\":\"q\"}"},
        /* What the table does not name, of each kind of the wire. */
        {BYTES("\x48\x05\x51"
               "12345678"
               "\x5a\x02zz\x65"
               "1234"
               "\x08\x01"),
            "{\"count\":1}"},
        /* Strings. */
        {BYTES("\x12\x04\"\\\n\t"), "{\"name\":\"\"\\\n\t\"}"},
        {BYTES("\x12\x03\x00\x01\x7f"), "{\"name\":\"\xEF\xBF\xBD\x01\x7f\"}"},
        {BYTES("\x12\x04\xf0\x9f\x98\x80"), "{\"name\":\"\xf0\x9f\x98\x80\"}"},
        {BYTES("\x12\x03"
               "a\xff"
               "b"),
            "{\"name\":\"a\xEF\xBF\xBD"
            "b\"}"},
        /* A character that is cut at the end of its string, with a fit byte behind it. */
        {BYTES("\x12\x02"
               "a\xc3"
               "\x82\x01\x01q"),
            "{\"name\":\"a\xEF\xBF\xBD\",\"far\":\"q\"}"},
        /* Not as it must be. */
        {BYTES("\x12"), NULL},
        {BYTES("\x12\x03hi"), NULL},
        {BYTES("\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01hi"), NULL},
        {BYTES("\x08\x80"), NULL},
        {BYTES("\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"), NULL},
        {BYTES("\x00\x01"), NULL},                 /* field 0 */
        {BYTES("\x80\x80\x80\x80\x80\x01"), NULL}, /* field 2^32 */
        {BYTES("\x13\x14"), NULL},                 /* a group */
        {BYTES("\x16"), NULL},
        {BYTES("\x10\x05"), NULL},         /* a number for a string */
        {BYTES("\x0a\x01x"), NULL},        /* bytes for a number */
        {BYTES("\x32\x02\x0a\x05"), NULL}, /* inside of a message */
        {BYTES("\x2a\x02\x0a\x05"), NULL},
        {BYTES("\x22\x01\x08"), NULL},
        {BYTES("\x55"
               "123"),
            NULL},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOBUF struct co_buf out = CO_BUF(4096);
        CO_AUTOJDOC struct co_jdoc doc = {.text = NULL};
        struct co_err err = {0};
        int r = co_proto_read(&outer, rows[i].data, rows[i].len, &doc, &err);
        assert_int_equal(r, rows[i].json ? 0 : CO_INVALID);
        if (rows[i].json) {
            write(doc.node, &out);
            assert_string_equal(out.data, rows[i].json);
            assert_int_equal(doc.node->size, doc.n);
        } else {
            assert_true(strncmp(co_err_text(&err), "protobuf: ", 10) == 0);
        }
    }
}

/* Those that grow most; the sanitizers' build sees what is beyond. */
static void node_buffers_hold_the_messages_that_grow_most(void **state) {
    (void)state;
    static const struct {
        const char *data;
        size_t len;
    } rows[] = {
        {BYTES("\x22\x02\x08\x01")},
        {BYTES("\x22\x0b\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01")},
        {BYTES("\x12\x03\xff\xff\xff")},
        {BYTES("\x12\x01\x00")},
        {BYTES("\x08\x7f")},
        {BYTES("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")},
        {BYTES("\x2a\x00")},
        {BYTES("\x32\x00")},
    };
    enum { TIMES = 1000 };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOBUF struct co_buf data = CO_BUF(16 * TIMES);
        CO_AUTOJDOC struct co_jdoc doc = {.text = NULL};
        for (size_t k = 0; k < TIMES; k++) {
            assert_int_equal(co_buf_add(&data, rows[i].data, rows[i].len, NULL), 0);
        }
        assert_int_equal(co_proto_read(&outer, data.data, data.len, &doc, NULL), 0);
        assert_int_equal(doc.node->size, doc.n);
    }
}

/* No answer is that long; room for it is not even asked for. */
static void a_message_has_a_longest_length(void **state) {
    (void)state;
    enum { LONGEST = 64 << 20 };
    CO_AUTOFREE char *zeros = co_xcalloc(LONGEST + 1, 1);
    struct co_jdoc doc;
    assert_int_equal(co_proto_read(&outer, zeros, LONGEST, &doc, NULL), CO_INVALID);
    assert_int_equal(co_proto_read(&outer, zeros, LONGEST + 1, &doc, NULL), CO_NORESOURCE);
}

static void the_last_of_repeated_fields_wins(void **state) {
    (void)state;
    static const char data[] = "\x12\x02hi\x08\x01\x12\x01y";
    const char *bytes;
    size_t len;
    assert_int_equal(co_proto_bytes(data, sizeof(data) - 1, 2, &bytes, &len, NULL), 0);
    assert_int_equal(len, 1);
    assert_memory_equal(bytes, "y", 1);
    assert_int_equal(co_proto_bytes(data, sizeof(data) - 1, 3, &bytes, &len, NULL), 0);
    assert_null(bytes);
    assert_int_equal(co_proto_bytes(data, sizeof(data) - 1, 1, &bytes, &len, NULL), CO_INVALID);
    assert_null(bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_become_the_nodes_of_their_table),
        cmocka_unit_test(node_buffers_hold_the_messages_that_grow_most),
        cmocka_unit_test(a_message_has_a_longest_length),
        cmocka_unit_test(the_last_of_repeated_fields_wins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
