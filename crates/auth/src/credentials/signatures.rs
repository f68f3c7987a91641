//! The verification of signatures with public keys, for the library `jsonwebtoken`: RS256, ES256 and EdDSA
//! by `ring`.

use jsonwebtoken::crypto::JwtVerifier;
use jsonwebtoken::errors::{Error as JwtError, ErrorKind as JwtKind};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents,
    UnparsedPublicKey, VerificationAlgorithm,
};

/// Returns the verifier of an algorithm.
///
/// # Errors
/// For another algorithm, and a key of another one.
pub(crate) fn verifier(
    algorithm: Algorithm,
    key: &DecodingKey,
) -> Result<Box<dyn JwtVerifier>, JwtError> {
    let of_bytes =
        |by: &'static dyn VerificationAlgorithm| -> Result<Box<dyn JwtVerifier>, JwtError> {
            let key = UnparsedPublicKey::new(by, key.try_get_as_bytes()?.to_vec());
            Ok(Box::new(OfBytes { algorithm, key }))
        };
    match (algorithm, key.kind()) {
        (Algorithm::RS256, DecodingKeyKind::RsaModulusExponent { n, e }) => {
            Ok(Box::new(OfRsa(RsaPublicKeyComponents { n: n.clone(), e: e.clone() })))
        }
        (Algorithm::ES256, _) => of_bytes(&ECDSA_P256_SHA256_FIXED),
        (Algorithm::EdDSA, _) => of_bytes(&ED25519),
        _ => Err(JwtError::from(JwtKind::InvalidAlgorithm)),
    }
}

/// A key of ECDSA or Ed25519.
struct OfBytes {
    algorithm: Algorithm,
    key: UnparsedPublicKey<Vec<u8>>,
}

impl signature::Verifier<Vec<u8>> for OfBytes {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        self.key.verify(message, signature).map_err(|_| signature::Error::new())
    }
}

impl JwtVerifier for OfBytes {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

/// A key of RSA with 2048 to 8192 bits.
struct OfRsa(RsaPublicKeyComponents<Vec<u8>>);

impl signature::Verifier<Vec<u8>> for OfRsa {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        let verified = self.0.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature);
        verified.map_err(|_| signature::Error::new())
    }
}

impl JwtVerifier for OfRsa {
    fn algorithm(&self) -> Algorithm {
        Algorithm::RS256
    }
}
