/* Self-signed certificates by GnuTLS. */
#include "common/cert.h"

#include <string.h>
#include <time.h>

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include "common/mem.h"

enum { YEAR_S = 365 * 24 * 3600, HOUR_S = 3600, SERIAL_BYTES = 16 };

static void crt_free(gnutls_x509_crt_t *crt) {
    gnutls_x509_crt_deinit(*crt);
}

static void key_free(gnutls_x509_privkey_t *key) {
    gnutls_x509_privkey_deinit(*key);
}

static void datum_free(gnutls_datum_t *d) {
    gnutls_free(d->data);
}

static int fill_certificate(gnutls_x509_crt_t crt, gnutls_x509_privkey_t key, const char *name) {
    unsigned char serial[SERIAL_BYTES];
    time_t now = time(NULL);
    CO_TRY(gnutls_rnd(GNUTLS_RND_NONCE, serial, sizeof(serial)));
    serial[0] &= 0x7f; /* a serial number must be positive */
    CO_TRY(gnutls_x509_crt_set_version(crt, 3));
    CO_TRY(gnutls_x509_crt_set_serial(crt, serial, sizeof(serial)));
    /* Valid from an hour ago, because the clocks of clients differ. */
    CO_TRY(gnutls_x509_crt_set_activation_time(crt, now - HOUR_S));
    CO_TRY(gnutls_x509_crt_set_expiration_time(crt, now + YEAR_S));
    CO_TRY(gnutls_x509_crt_set_dn_by_oid(
        crt, GNUTLS_OID_X520_COMMON_NAME, 0, name, (unsigned)strlen(name)));
    CO_TRY(gnutls_x509_crt_set_subject_alt_name(
        crt, GNUTLS_SAN_DNSNAME, name, (unsigned)strlen(name), GNUTLS_FSAN_SET));
    CO_TRY(gnutls_x509_crt_set_key_purpose_oid(crt, GNUTLS_KP_TLS_WWW_SERVER, 0));
    CO_TRY(gnutls_x509_crt_set_key(crt, key));
    return gnutls_x509_crt_sign2(crt, crt, key, GNUTLS_DIG_SHA256, 0);
}

static int make_pair(const char *name, gnutls_datum_t *ret_cert, gnutls_datum_t *ret_key) {
    CO_CLEANUP(crt_free) gnutls_x509_crt_t crt = NULL;
    CO_CLEANUP(key_free) gnutls_x509_privkey_t key = NULL;
    CO_TRY(gnutls_x509_crt_init(&crt));
    CO_TRY(gnutls_x509_privkey_init(&key));
    CO_TRY(gnutls_x509_privkey_generate(
        key, GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0));
    CO_TRY(fill_certificate(crt, key, name));
    CO_TRY(gnutls_x509_crt_export2(crt, GNUTLS_X509_FMT_PEM, ret_cert));
    return gnutls_x509_privkey_export2(key, GNUTLS_X509_FMT_PEM, ret_key);
}

int co_cert_self_signed(const char *name, char **ret_cert, char **ret_key, struct co_err *err) {
    CO_CLEANUP(datum_free) gnutls_datum_t cert_pem = {NULL, 0};
    CO_CLEANUP(datum_free) gnutls_datum_t key_pem = {NULL, 0};
    int r = make_pair(name, &cert_pem, &key_pem);
    if (r) {
        return co_err_set(
            err, CO_INTERNAL, "cannot make a certificate for %s: %s", name, gnutls_strerror(r));
    }
    *ret_cert = co_xstrndup((const char *)cert_pem.data, cert_pem.size);
    *ret_key = co_xstrndup((const char *)key_pem.data, key_pem.size);
    return 0;
}
