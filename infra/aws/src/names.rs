//! Names of tenants' things, as AWS allows them.

use domain::Digest;
use domain::aggregate::encode;

/// A part of a name: letters, digits, `_`, `-`, and a dot before two hex digits for everything else. A longer part is
/// named by its beginning and its digest; no short one has two dots in a row, so the two kinds never meet.
pub fn safe_name(part: &str) -> String {
    let encoded = encode(part).replace('%', ".");
    if encoded.len() <= 200 {
        return encoded;
    }
    let begin: String = encoded.chars().take(100).collect();
    format!("{begin}..{}", Digest::of(part.as_bytes()))
}
