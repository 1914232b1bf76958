//! Letters in a record of a table's stream.

use ports::PortError;
use ports::commit::Letter;
use ports::stored_letter::StoredLetter;

/// What a record of a stream tells of an item: the attributes that letters need, before and after.
#[derive(Debug, Clone, Default)]
pub struct StreamRecord {
    /// The commit that wrote the item; None where the item was removed.
    pub commit: Option<String>,
    /// The commit that had written it before.
    pub commit_before: Option<String>,
    /// Its letters.
    pub letters: Option<String>,
}

/// The letters that leave with a record: only those of the commit that it tells of (Rule 7).
pub fn letters_of(record: &StreamRecord) -> Result<Vec<Letter>, PortError> {
    let Some(letters) = &record.letters else { return Ok(vec![]) };
    if record.commit.is_none() || record.commit == record.commit_before {
        return Ok(vec![]);
    }
    let stored: Vec<StoredLetter> = serde_json::from_str(letters).map_err(|e| {
        PortError::broken_by("the letters of an item can't be read", "another version wrote them", e)
    })?;
    Ok(stored.into_iter().map(Letter::from).collect())
}
