/*
 * tls_session.h - the inside of redisq-tls.so: a session (tls_openssl.c), and what goes wrong in
 * words for people (tls_words.c): what it is, and what to do. Nobody else includes it.
 */
#ifndef REDISQ_TLS_SESSION_H
#define REDISQ_TLS_SESSION_H

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "tls_module.h"

struct tls_session {
	SSL *ssl;      /* owned */
	bool has_cert; /* we can show one */
	bool established;
	bool broken;    /* no goodbye is possible any more */
	bool is_end;    /* of what the socket's latest read brought */
	int error;      /* errno of the socket's latest call */
	char host[256]; /* whom the certificate must name */
};

/* The certificate that OpenSSL is looking at is refused. */
void tls_words_certificate(struct rconn_io *io, X509_STORE_CTX *x);
/* OpenSSL's queue of errors says what became of the session. */
void tls_words_failure(struct rconn_io *io);
/* The other side went in the middle of the handshake. */
void tls_words_hung_up(struct rconn_io *io);
/* OpenSSL's queue says what is wrong with the file of that key. Always false. */
bool tls_words_file(char why[TLS_WHY_MAX], const char *key, const char *path);
bool tls_words_key(char why[TLS_WHY_MAX], const char *path, const char *cert_path);

#endif
