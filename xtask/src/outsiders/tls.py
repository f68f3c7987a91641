"""Scans a TLS port of this machine with sslyze and says what is wrong with it; exits with 1 then.

Certificates are not judged: the one that is shown here was made for the test.
"""

import sys

import sslyze

OLD = ["ssl_2_0", "ssl_3_0", "tls_1_0", "tls_1_1"]
# Mozilla's "intermediate" configuration, version 5.7, as far as rustls has it.
CIPHERS = {
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
}


def faults(scan):
    def of(name):
        attempt = getattr(scan, name)
        if attempt.status != sslyze.ScanCommandAttemptStatusEnum.COMPLETED:
            raise SystemExit(f"{name} was not scanned: {attempt.error_reason} {attempt.error_trace}")
        return attempt.result

    for version in OLD:
        if of(f"{version}_cipher_suites").accepted_cipher_suites:
            yield f"{version} is spoken"
    spoken = 0
    for version in ["tls_1_2", "tls_1_3"]:
        for suite in of(f"{version}_cipher_suites").accepted_cipher_suites:
            spoken += 1
            if suite.cipher_suite.name not in CIPHERS:
                yield f"{version}: {suite.cipher_suite.name}"
    if spoken == 0:
        yield "no cipher is taken at all"
    if of("heartbleed").is_vulnerable_to_heartbleed:
        yield "heartbleed"
    if of("openssl_ccs_injection").is_vulnerable_to_ccs_injection:
        yield "CCS injection"
    if "NOT_VULNERABLE" not in of("robot").robot_result.name:
        yield f"ROBOT: {of('robot').robot_result.name}"
    if of("tls_compression").supports_compression:
        yield "compression"
    if of("tls_1_3_early_data").supports_early_data:
        yield "early data, which can be sent again by others"
    if not of("tls_fallback_scsv").supports_fallback_scsv:
        yield "no protection against being talked down to an older version"
    renegotiation = of("session_renegotiation")
    if renegotiation.is_vulnerable_to_client_renegotiation_dos:
        yield "renegotiation by the client"
    if not renegotiation.supports_secure_renegotiation:
        yield "insecure renegotiation"


location = sslyze.ServerNetworkLocation("localhost", int(sys.argv[1]), "127.0.0.1")
commands = set(sslyze.ScanCommand) - {
    sslyze.ScanCommand.CERTIFICATE_INFO,
    sslyze.ScanCommand.HTTP_HEADERS,
    # It takes a ticket that is renewed with its use for none; the server's own tests have it.
    sslyze.ScanCommand.SESSION_RESUMPTION,
}
scanner = sslyze.Scanner()
scanner.queue_scans([sslyze.ServerScanRequest(location, scan_commands=commands)])
for result in scanner.get_results():
    if result.scan_result is None:
        raise SystemExit(f"it could not be scanned: {result.connectivity_error_trace}")
    found = list(faults(result.scan_result))
    print("sslyze:", "; ".join(found) or "nothing to object to")
    sys.exit(1 if found else 0)
