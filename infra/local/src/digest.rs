//! Digests and the encoding of names.

use sha2::{Digest, Sha256};

/// SHA-256 in hex.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// HMAC-SHA-256 in hex; keyed, so that a digest of a short secret can't be looked up.
pub(crate) fn keyed(key: &[u8; 32], message: &[u8]) -> String {
    let pad = |byte: u8| {
        let mut block = [byte; 64];
        for (slot, key) in block.iter_mut().zip(key) {
            *slot ^= key;
        }
        block
    };
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(message).finalize();
    hex::encode(Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize())
}

/// A file name for any name: two names never share one.
pub(crate) fn encode(name: &str) -> String {
    let mut encoded = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => encoded.push(char::from(byte)),
            b'.' if !encoded.is_empty() => encoded.push('.'),
            other => encoded.push_str(&format!("%{other:02X}")),
        }
    }
    if encoded.len() > 200 {
        // `~` never comes out of the encoding above, so a long name can't meet a short one.
        let head: String = encoded.chars().take(100).collect();
        return format!("{head}~{}", sha256(name.as_bytes()));
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_encoded_injectively_into_one_path_component() {
        let long = "x".repeat(300);
        let names = [
            "a",
            "A",
            "a/b",
            "a%2Fb",
            "a::b",
            "..",
            ".",
            ".a",
            "a.b",
            "ü",
            "u\u{308}",
            "a\\b",
            "a\"b",
            "",
            " ",
            "a~b",
            long.as_str(),
        ];
        let encoded: BTreeSet<_> = names.iter().map(|name| encode(name)).collect();
        assert_eq!(encoded.len(), names.len());
        for name in encoded {
            assert!(!name.contains('/') && !name.starts_with('.') && name.len() < 250, "{name}");
        }
    }

    #[test]
    fn hmac_matches_a_published_vector() {
        // RFC 4231, case 1, has a 20 byte key; zero padding makes it a 32 byte one.
        let mut key = [0_u8; 32];
        key[..20].fill(0x0b);
        assert_eq!(
            keyed(&key, b"Hi There"),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"
        );
    }
}
