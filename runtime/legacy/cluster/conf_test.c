#include "runtime/legacy/cluster/conf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/legacy/cluster/host_script.h"

/* A conf.py as JSON, or the part of the message that it is refused with. */
static const struct {
    const char *what, *text, *json, *error;
} python_rows[] = {
    {"empty", "", "{}", NULL},
    {"the document's",
        "HOSTS = [\n  \"root@192.168.100.17\",\n  'root@192.168.100.18:9090', # the second\n ]\n"
        "'''\nworkspace\n'''\n#root\nROOT_DIR = \"/home/paddle\"\nPADDLE_PORTS_NUM = 2\n",
        "{\"HOSTS\":[\"root@192.168.100.17\",\"root@192.168.100.18:9090\"],"
        "\"PADDLE_PORTS_NUM\":2,\"ROOT_DIR\":\"/home/paddle\"}",
        NULL},
    {"strings that stand beside each other", "A = 'a' \"b\"\nB=('x'\n 'y',)",
        "{\"A\":\"ab\",\"B\":[\"xy\"]}", NULL},
    {"escapes, long strings, continued lines", "A = 'it\\'s'\nB = '''x\ny'''\nC = \\\n 1; D=-2",
        "{\"A\":\"it's\",\"B\":\"x\\ny\",\"C\":1,\"D\":-2}", NULL},
    {"words", "A=True\nB=False\nC=None", "{\"A\":true,\"B\":false,\"C\":null}", NULL},
    {"the last one counts", "A=1\r\nA=2\r\n", "{\"A\":2}", NULL},
    {"code is not executed", "import os\n", NULL,
        "conf.py:1: \"import os\", expected NAME = value"},
    {"a call", "\nA = f()\n", NULL, "conf.py:2: \"f()\", expected a string"},
    {"a sum", "A = 1 + 1\n", NULL, "conf.py:1: \"+ 1\", expected the end of the line"},
    {"no end of a string", "A = 'x\n'", NULL, "expected the end of a string"},
    {"no end of a long string", "A = '''x", NULL, "expected the end of a string"},
    {"no end of a list", "A = ['x'", NULL, "expected the end of a list"},
    {"a list in a list", "A = [[1]]", NULL, "expected a string, a number"},
    {"a comparison", "A == 1", NULL, "expected NAME = value"},
    {"a number too long", "A = 99999999999999999999", NULL, "expected a string, a number"},
    {"a comma too few", "A = ['x' 1]", NULL, "or the end of the list"},
};

static void python_is_read_as_data(void **state) {
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(python_rows); i++) {
        const char *text = python_rows[i].text;
        CO_AUTOJSON json_t *values = NULL;
        struct co_err err = {0};
        int r = cluster_python_read("conf.py", text, strlen(text), &values, &err);
        CO_AUTOFREE char *json = values ? co_json_dump_sorted(values) : NULL;
        if (python_rows[i].json ? !co_streq(json, python_rows[i].json)
                                : !r || !strstr(err.msg, python_rows[i].error)) {
            fail_msg("%s: %s %s", python_rows[i].what, json ? json : "", err.msg);
        }
    }
}

static int decode(const char *text, struct cluster_conf *ret, struct co_err *err) {
    CO_AUTOJSON json_t *values = NULL;
    assert_int_equal(cluster_python_read("c", text, strlen(text), &values, NULL), 0);
    return cluster_conf_decode("c", values, ret, err);
}

static void hosts_and_defaults(void **state) {
    (void)state;
    struct cluster_conf c;
    assert_int_equal(decode("HOSTS=['a', 'root@b:22', 'u@[fd00::1]:9', '[fd00::2]']", &c, NULL), 0);
    static const struct {
        const char *user, *name;
        uint16_t port;
    } want[] = {{"", "a", 0}, {"root", "b", 22}, {"u", "fd00::1", 9}, {"", "fd00::2", 0}};
    assert_int_equal(c.n_hosts, 4);
    for (size_t i = 0; i < c.n_hosts; i++) {
        assert_string_equal(c.hosts[i].user, want[i].user);
        assert_string_equal(c.hosts[i].name, want[i].name);
        assert_int_equal(c.hosts[i].port, want[i].port);
    }
    assert_string_equal(c.root_dir, "/home/paddle");
    assert_int_equal(c.port, 7164);
    assert_int_equal(c.ports_num, 2);
    cluster_conf_done(&c);
}

static void errors_name_the_invalid_setting(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        {"A=1", "c: HOSTS is not there"},
        {"HOSTS='a'", "HOSTS is of another kind"},
        {"HOSTS=[]", "HOSTS is of another kind or length"},
        {"HOSTS=[1]", "expected user@host"},
        {"HOSTS=['-oProxyCommand=x']", "expected user@host"},
        {"HOSTS=['-x@a']", "expected user@host"},
        {"HOSTS=['a b']", "expected user@host"},
        {"HOSTS=['a;b']", "expected user@host"},
        {"HOSTS=['a:0']", "expected user@host"},
        {"HOSTS=['fd00::1']", "expected user@host"},
        {"HOSTS=['[fd00::1']", "expected user@host"},
        {"HOSTS=['[fd00::1]x']", "expected user@host"},
        {"HOSTS=['a','b@a']", "HOSTS has a twice"},
        {"HOSTS=['a']\nROOT_DIR='x'", "ROOT_DIR is \"x\", expected an absolute path"},
        {"HOSTS=['a']\nPADDLE_PORT=0", "PADDLE_PORT is not a number from 1 to 65535"},
        {"HOSTS=['a']\nPADDLE_PORT='7'", "PADDLE_PORT is not a number"},
        {"HOSTS=['a']\nPADDLE_NIC=1", "PADDLE_NIC is not a line of text"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct cluster_conf c;
        struct co_err err = {0};
        if (!decode(rows[i][0], &c, &err) || !strstr(err.msg, rows[i][1])) {
            fail_msg("%s: %s", rows[i][0], err.msg);
        }
    }
}

static void text_reaches_a_shell_as_one_word(void **state) {
    (void)state;
    CO_AUTOFREE char *quoted = cluster_shell_quote("it's $HOME; `x`");
    assert_string_equal(quoted, "'it'\\''s $HOME; `x`'");
}

static void a_hosts_script_has_all_of_it_quoted(void **state) {
    (void)state;
    struct cluster_conf c;
    assert_int_equal(
        decode("HOSTS=['u@a:9', 'b']\nPADDLE_NIC=\"e'0\"\nPADDLE_PORT=255", &c, NULL), 0);
    char *flags[] = {(char *)"--config=a b.py"};
    struct cluster_options o = {.workspace = "/w s",
        .ssh = "ssh  -i key",
        .paddle = "paddle",
        .train_flags = flags,
        .n_train_flags = 1,
        .ready_ms = 1000,
        .stop_ms = 1000};
    CO_AUTOFREE char *script = cluster_run_script(&c, &o, "/w s", 1, "10.0.0.1,10.0.0.2");
    static const char train[] =
        "run train 'paddle' train '--num_gradient_servers=2' '--nics=e'\\''0' '--port=255' "
        "'--ports_num=2' '--ports_num_for_sparse=2' '--comment=paddle_process_by_paddle' "
        "'--pservers=10.0.0.1,10.0.0.2' '--config=a b.py' '--trainer_id=1'\n";
    static const char *const parts[] = {"cd '/w s' || exit 97\n", "echo 1 >nodefile\n", train,
        "run server 'paddle' pserver '--num_gradient_servers=2' '--nics=e'\\''0' '--port=255' ",
        "until listens 00FF && listens 0102;"};
    for (size_t i = 0; i < CO_ARRAY_LEN(parts); i++) {
        if (!strstr(script, parts[i])) {
            fail_msg("without %s: %s", parts[i], script);
        }
    }
    char **words = cluster_ssh(&o, &c.hosts[0], "true");
    static const char *const want[] = {"ssh", "-i", "key", "-T", "-o", "BatchMode=yes", "-o",
        "LogLevel=INFO", "-o", "ConnectTimeout=15", "-o", "ServerAliveInterval=15", "-o",
        "ServerAliveCountMax=4", "-p", "9", "-l", "u", "a", "exec sh -c 'true'", NULL};
    for (size_t i = 0; i < CO_ARRAY_LEN(want); i++) {
        assert_true(co_streq(words[i], want[i]) || (!words[i] && !want[i]));
    }
    cluster_words_free(words);
    cluster_conf_done(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(python_is_read_as_data),
        cmocka_unit_test(hosts_and_defaults),
        cmocka_unit_test(errors_name_the_invalid_setting),
        cmocka_unit_test(text_reaches_a_shell_as_one_word),
        cmocka_unit_test(a_hosts_script_has_all_of_it_quoted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
