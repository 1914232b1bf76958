//! Signatures of tokens, checked by ring, which the product's TLS uses too. Three algorithms and no other: no `none`,
//! nothing with a shared secret.

use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error, ErrorKind, new_error};
use jsonwebtoken::signature::{self, Verifier};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, DecodingKeyKind, EncodingKey};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};

/// What a token may be signed with.
const ALGORITHMS: [Algorithm; 3] = [Algorithm::RS256, Algorithm::ES256, Algorithm::EdDSA];

static RING: CryptoProvider = CryptoProvider {
    signer_factory: signs_nothing,
    verifier_factory: verifier,
    key_utils: KeyUtils::new_unimplemented(),
};

/// Makes ring the one that checks; again is no harm.
pub fn install() {
    let _ = RING.install_default();
}

fn signs_nothing(_: &Algorithm, _: &EncodingKey) -> Result<Box<dyn JwtSigner>, Error> {
    Err(new_error(ErrorKind::UnsupportedAlgorithm))
}

struct Checks {
    algorithm: Algorithm,
    key: DecodingKey,
}

fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>, Error> {
    if !ALGORITHMS.contains(algorithm) {
        return Err(new_error(ErrorKind::UnsupportedAlgorithm));
    }
    // A key never checks what another kind of key signs.
    if key.family() != algorithm.family() {
        return Err(new_error(ErrorKind::InvalidAlgorithm));
    }
    Ok(Box::new(Checks { algorithm: *algorithm, key: key.clone() }))
}

impl JwtVerifier for Checks {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

impl Verifier<Vec<u8>> for Checks {
    fn verify(&self, message: &[u8], signed: &Vec<u8>) -> Result<(), signature::Error> {
        let checked = match (self.key.kind(), self.algorithm.family()) {
            (DecodingKeyKind::RsaModulusExponent { n, e }, AlgorithmFamily::Rsa) => {
                RsaPublicKeyComponents { n, e }.verify(&RSA_PKCS1_2048_8192_SHA256, message, signed)
            }
            (DecodingKeyKind::SecretOrDer(key), AlgorithmFamily::Ec) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, key).verify(message, signed)
            }
            (DecodingKeyKind::SecretOrDer(key), AlgorithmFamily::Ed) => {
                UnparsedPublicKey::new(&ED25519, key).verify(message, signed)
            }
            (DecodingKeyKind::SecretOrDer(_) | DecodingKeyKind::RsaModulusExponent { .. }, _) => {
                return Err(signature::Error::new());
            }
        };
        checked.map_err(|_| signature::Error::new())
    }
}
