//! Names of tenants' things, as AWS allows them.

use domain::Digest;
use domain::aggregate::encode;

/// A policy of a session has 2048 characters, and names a tenant with each of its secrets.
const LONGEST: usize = 120;

/// A part of a name: letters, digits, `_`, `-`, and a dot before two hex digits for everything else. A longer part is
/// named by its beginning and its digest; no short one has two dots in a row, so the two kinds never meet.
pub fn safe_name(part: &str) -> String {
    let encoded = encode(part).replace('%', ".");
    if encoded.len() <= LONGEST {
        return encoded;
    }
    let begin: String = encoded.chars().take(LONGEST / 2).collect();
    format!("{begin}..{}", Digest::of(part.as_bytes()))
}
