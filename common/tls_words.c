/*
 * tls_words.c - see tls_session.h. What came over the wire, such as names in a certificate, is
 * shown without control characters.
 */
#include <arpa/inet.h>
#include <stdarg.h>

#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "tls_session.h"

#define NAMES_MAX 96

static void say(char why[TLS_WHY_MAX], const char *fmt, ...) ATTR_PRINTF(2, 3);
static void say(char why[TLS_WHY_MAX], const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, TLS_WHY_MAX, fmt, ap);
	va_end(ap);
	blank_controls(why);
}

/* ------------------------------------------------------------------ certificates */

static void add_name(char out[NAMES_MAX], const char *text, size_t len)
{
	size_t at = strlen(out);

	snprintf(out + at, NAMES_MAX - at, "%s%.*s", at ? ", " : "",
		 (int)(len < NAMES_MAX ? len : NAMES_MAX), text);
}

static void add_address(char out[NAMES_MAX], const ASN1_OCTET_STRING *ip)
{
	const unsigned char *bytes = ASN1_STRING_get0_data(ip);
	int family = ASN1_STRING_length(ip) == 4 ? AF_INET : AF_INET6;
	char text[INET6_ADDRSTRLEN];

	if ((family == AF_INET || ASN1_STRING_length(ip) == 16) &&
	    inet_ntop(family, bytes, text, sizeof(text)))
		add_name(out, text, strlen(text));
}

/* Whom the certificate is for: its names and addresses, or where it has none its common name. */
static void names_of(X509 *cert, char out[NAMES_MAX])
{
	GENERAL_NAMES *names = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
	char name[NAMES_MAX];

	out[0] = '\0';
	for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
		const GENERAL_NAME *n = sk_GENERAL_NAME_value(names, i);

		if (n->type == GEN_DNS)
			add_name(out, (const char *)ASN1_STRING_get0_data(n->d.dNSName),
				 (size_t)ASN1_STRING_length(n->d.dNSName));
		else if (n->type == GEN_IPADD)
			add_address(out, n->d.iPAddress);
	}
	GENERAL_NAMES_free(names);
	if (!out[0] && X509_NAME_get_text_by_NID(X509_get_subject_name(cert), NID_commonName, name,
						 sizeof(name)) > 0)
		add_name(out, name, strlen(name));
	if (!out[0])
		snprintf(out, NAMES_MAX, "nobody");
}

/* "Nov 29 20:47:12 2026 GMT" */
static void time_text(const ASN1_TIME *t, char out[64])
{
	BIO *b = BIO_new(BIO_s_mem());
	int n = 0;

	if (b && ASN1_TIME_print(b, t) == 1)
		n = BIO_read(b, out, 63);
	out[n > 0 ? n : 0] = '\0';
	BIO_free(b);
}

void tls_words_certificate(struct rconn_io *io, X509_STORE_CTX *x)
{
	struct tls_session *s = io->state;
	X509 *cert = X509_STORE_CTX_get_current_cert(x);
	const char *whose = X509_STORE_CTX_get_error_depth(x) ? "of the CA" : "of Redis";
	int error = X509_STORE_CTX_get_error(x);
	char names[NAMES_MAX], when[64];

	switch (error) {
	case X509_V_ERR_HOSTNAME_MISMATCH:
	case X509_V_ERR_IP_ADDRESS_MISMATCH:
		names_of(cert, names);
		say(io->why,
		    "TLS: the certificate is for %s, not for %.60s; write one of its names into "
		    "the url (nodes of a cluster: set cluster-announce-hostname), or give Redis "
		    "one for that host",
		    names, s->host);
		return;
	case X509_V_ERR_CERT_HAS_EXPIRED:
		time_text(X509_get0_notAfter(cert), when);
		say(io->why, "TLS: the certificate %s expired on %s; renew it", whose, when);
		return;
	case X509_V_ERR_CERT_NOT_YET_VALID:
		time_text(X509_get0_notBefore(cert), when);
		say(io->why, "TLS: the certificate %s is valid from %s only; is the clock right?",
		    whose, when);
		return;
	case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
	case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
	case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
	case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
	case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
		say(io->why,
		    "TLS: the certificate of Redis is signed by no CA that is trusted here (%s); "
		    "set tls_ca_file to the certificate of its CA",
		    X509_verify_cert_error_string(error));
		return;
	default:
		say(io->why, "TLS: the certificate %s: %s; give Redis one that is right", whose,
		    X509_verify_cert_error_string(error));
	}
}

/* ------------------------------------------------------------------ the session */

static void refused_ours(struct rconn_io *io, const char *reason)
{
	const struct tls_session *s = io->state;

	if (s->has_cert)
		say(io->why,
		    "TLS: Redis refuses us (%s); is tls_cert_file signed by its tls-ca-cert-file, "
		    "and not expired?",
		    reason);
	else
		say(io->why,
		    "TLS: Redis refuses us (%s); if it wants client certificates, set "
		    "tls_cert_file and tls_key_file",
		    reason);
}

void tls_words_failure(struct rconn_io *io)
{
	unsigned long code = ERR_peek_error();
	const char *text = ERR_reason_error_string(code);

	if (!text)
		text = "a fault without a name";
	switch (ERR_GET_LIB(code) == ERR_LIB_SSL ? ERR_GET_REASON(code) : 0) {
	case SSL_R_WRONG_VERSION_NUMBER:
	case SSL_R_HTTP_REQUEST:
	case SSL_R_PACKET_LENGTH_TOO_LONG:
		say(io->why,
		    "TLS: what answers does not speak TLS (%s); give the TLS port, or leave "
		    "the s before :// out of the url",
		    text);
		return;
	case SSL_R_UNSUPPORTED_PROTOCOL:
	case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
		say(io->why,
		    "TLS: no version in common (%s); here it is 1.2 and newer, let Redis speak "
		    "one of them (tls-protocols)",
		    text);
		return;
	case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
	case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
	case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
	case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
	case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
	case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
	case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
	case SSL_R_TLSV1_ALERT_ACCESS_DENIED:
	case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
		refused_ours(io, text);
		return;
	default:
		say(io->why, "TLS: %s", text);
	}
}

void tls_words_hung_up(struct rconn_io *io)
{
	say(io->why, "TLS: the connection ended in the middle of the handshake; is that a TLS "
		     "port, and does Redis run?");
}

/* ------------------------------------------------------------------ files */

bool tls_words_file(char why[TLS_WHY_MAX], const char *key, const char *path)
{
	unsigned long code = ERR_peek_last_error();
	const char *text = code ? ERR_reason_error_string(code) : NULL;

	bool is_empty =
		(ERR_GET_LIB(code) == ERR_LIB_PEM && ERR_GET_REASON(code) == PEM_R_NO_START_LINE) ||
		(ERR_GET_LIB(code) == ERR_LIB_X509 &&
		 ERR_GET_REASON(code) == X509_R_NO_CERTIFICATE_OR_CRL_FOUND);

	say(why, "%s%s%.150s: %s%s", key, *path ? " " : "", path, text ? text : "cannot be used",
	    is_empty ? "; give a PEM file that has what the key says" : "");
	return false;
}

bool tls_words_key(char why[TLS_WHY_MAX], const char *path, const char *cert_path)
{
	unsigned long code = ERR_peek_last_error();

	if (ERR_GET_LIB(code) == ERR_LIB_X509 &&
	    (ERR_GET_REASON(code) == X509_R_KEY_VALUES_MISMATCH ||
	     ERR_GET_REASON(code) == X509_R_KEY_TYPE_MISMATCH)) {
		say(why,
		    "tls_key_file %.90s is not the key of tls_cert_file %.90s; give the two "
		    "that belong together",
		    path, cert_path);
		return false;
	}
	for (; code; code = ERR_get_error())
		if (ERR_GET_LIB(code) == ERR_LIB_PEM &&
		    ERR_GET_REASON(code) == PEM_R_BAD_PASSWORD_READ) {
			say(why, "tls_key_file %.150s has a passphrase; give a key without one",
			    path);
			return false;
		}
	return tls_words_file(why, "tls_key_file", path);
}
