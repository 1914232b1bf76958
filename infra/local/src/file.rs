//! The resource `local:index:File`: a text file below the environment's files.

mod beneath;

use serde::{Deserialize, Serialize};

use crate::check::{Failure, Failures};
use crate::digest;
use crate::error::LocalError;
use crate::file::beneath::{Found, Place};
use crate::folder::{Cancel, Folder};
use crate::property::{GENERATION, Properties, Property, generation};
use crate::provider::Done;
use crate::root::Root;

/// A change of these makes another file.
pub(crate) const FIXED: [&str; 1] = ["path"];
const KNOWN: [&str; 3] = ["path", "content", "mode"];

/// Says whose a file is; its content is only in the file.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record {
    owner: String,
    #[serde(default)]
    generation: u32,
    path: String,
    secret: bool,
}

struct Wanted {
    path: String,
    content: String,
    secret: bool,
    mode: u32,
}

/// Fills in the defaults and finds what is wrong.
pub(crate) fn check(mut inputs: Properties) -> (Properties, Vec<Failure>) {
    let mut failures = Failures::default();
    failures.unknown(&inputs, "", &KNOWN);
    failures.no_secrets(&inputs, &["content"], "only `content` may hold secrets");
    for key in ["path", "content"] {
        if !inputs.contains_key(key) {
            failures.add(key, "is missing: every file has a path and a content");
        }
    }
    if let Some(path) = failures.text(&inputs, "path")
        && let Err(reason) = beneath::components(&path)
    {
        failures
            .add("path", format!("{reason}: use a path below the environment's files, like `etc/app.conf`"));
    }
    if inputs.get("content").is_some_and(|content| !content.has_unknown() && content.as_text().is_none()) {
        let content = inputs.get("content").map_or("nothing", Property::kind);
        failures.add("content", format!("must be a string, not {content}"));
    }
    match inputs.get("mode") {
        None => {
            let mode = if inputs.get("content").is_some_and(Property::has_secret) { "0600" } else { "0644" };
            inputs.insert("mode".to_owned(), Property::text(mode));
        }
        Some(mode) if mode.has_unknown() => {}
        Some(mode) => match mode.as_text().and_then(parse_mode) {
            Some(mode) => {
                inputs.insert("mode".to_owned(), Property::Text(format!("{mode:04o}")));
            }
            None => failures.add(
                "mode",
                "must be octal digits in quotes, from \"0400\" to \"0777\", readable by the owner",
            ),
        },
    }
    (inputs, failures.into_list())
}

fn parse_mode(text: &str) -> Option<u32> {
    let octal = !text.is_empty() && text.len() <= 4 && text.bytes().all(|byte| matches!(byte, b'0'..=b'7'));
    u32::from_str_radix(text, 8).ok().filter(|mode| octal && *mode <= 0o777 && mode & 0o400 != 0)
}

impl Wanted {
    fn from_inputs(inputs: &Properties) -> Result<Self, LocalError> {
        let missing =
            |key: &str| LocalError::Inputs(format!("`{key}` is missing or not known yet: run `up` again"));
        let text = |key: &str| inputs.get(key).and_then(Property::as_text).ok_or_else(|| missing(key));
        Ok(Self {
            path: text("path")?.to_owned(),
            content: text("content")?.to_owned(),
            secret: inputs.get("content").is_some_and(Property::has_secret),
            mode: parse_mode(text("mode")?).ok_or_else(|| missing("mode"))?,
        })
    }
}

/// Writes the file. A new resource doesn't take over a file that isn't its own.
pub(crate) fn write(
    root: &Root,
    urn: &str,
    inputs: Properties,
    new: bool,
    cancel: &Cancel,
) -> Result<Done, LocalError> {
    let wanted = Wanted::from_inputs(&inputs)?;
    let folder = Folder::create(&root.file_record(&wanted.path), &wanted.path, cancel)?;
    let before: Option<Record> = folder.load()?;
    let generation = before.as_ref().map_or(0, |before| before.generation + u32::from(new));
    let written = (|| {
        let place = Place::create(root, &wanted.path)?;
        if new {
            match &before {
                Some(before) if before.owner != urn => {
                    return Err(LocalError::Taken { name: wanted.path.clone(), owner: before.owner.clone() });
                }
                None if place.read()?.is_some_and(|found| found.bytes != wanted.content.as_bytes()) => {
                    return Err(LocalError::Unmanaged { path: wanted.path.clone() });
                }
                _ => {}
            }
        }
        // The record first: whose the file is must be known as soon as it is there.
        folder.save(&Record {
            owner: urn.to_owned(),
            generation,
            path: wanted.path.clone(),
            secret: wanted.secret,
        })?;
        place.write(wanted.content.as_bytes(), wanted.mode)
    })();
    if let Err(error) = written {
        if before.is_none() {
            folder.remove()?;
        }
        return Err(error);
    }
    let mut outputs =
        outputs(root, &wanted.path, Some((wanted.content.as_bytes(), wanted.secret)), inputs.clone());
    outputs.insert(GENERATION.to_owned(), Property::Number(f64::from(generation)));
    Ok(Done { id: wanted.path, inputs, outputs, problem: None })
}

/// The outputs as far as they can be told before anything is done.
pub(crate) fn preview(root: &Root, inputs: Properties) -> Properties {
    let known = |key: &str| inputs.get(key).filter(|value| !value.has_unknown()).and_then(Property::as_text);
    let secret = inputs.get("content").is_some_and(Property::has_secret);
    let content = known("content").map(|content| (content.as_bytes().to_vec(), secret));
    match known("path").map(str::to_owned) {
        Some(path) => {
            outputs(root, &path, content.as_ref().map(|(bytes, secret)| (bytes.as_slice(), *secret)), inputs)
        }
        None => {
            let mut outputs = outputs(root, "", None, inputs);
            outputs.insert("absolutePath".to_owned(), Property::Unknown);
            outputs
        }
    }
}

fn outputs(root: &Root, path: &str, content: Option<(&[u8], bool)>, inputs: Properties) -> Properties {
    let mut outputs = inputs;
    outputs.insert("absolutePath".to_owned(), Property::text(root.files().join(path).display().to_string()));
    let (sha256, size) = match content {
        None => (Property::Unknown, Property::Unknown),
        Some((bytes, secret)) => {
            let sha256 = Property::Text(digest::sha256(bytes));
            let size = Property::Number(bytes.len() as f64);
            // A short secret can be found from its digest.
            (if secret { sha256.into_secret() } else { sha256 }, size)
        }
    };
    outputs.insert("sha256".to_owned(), sha256);
    outputs.insert("size".to_owned(), size);
    outputs.insert(GENERATION.to_owned(), Property::Unknown);
    outputs
}

/// What is really there; none when there is no such file.
pub(crate) fn read(root: &Root, path: &str, state: &Properties) -> Result<Option<Done>, LocalError> {
    let Some(place) = Place::open(root, path)? else { return Ok(None) };
    let Some(Found { bytes, mode }) = place.read()? else { return Ok(None) };
    let record: Option<Record> = crate::folder::load(&root.file_record(path))?;
    let generation = record.as_ref().map_or(0, |record| record.generation);
    let secret =
        state.get("content").is_some_and(Property::has_secret) || record.is_some_and(|record| record.secret);
    let content = Property::Text(String::from_utf8_lossy(&bytes).into_owned());
    let inputs = Properties::from([
        ("path".to_owned(), Property::text(path)),
        ("content".to_owned(), if secret { content.into_secret() } else { content }),
        ("mode".to_owned(), Property::Text(format!("{mode:04o}"))),
    ]);
    let mut outputs = outputs(root, path, Some((&bytes, secret)), inputs.clone());
    outputs.insert(GENERATION.to_owned(), Property::Number(f64::from(generation)));
    Ok(Some(Done { id: path.to_owned(), inputs, outputs, problem: None }))
}

/// Removes the file, and folders that it leaves empty. What was created anew meanwhile stays.
pub(crate) fn delete(root: &Root, path: &str, state: &Properties, cancel: &Cancel) -> Result<(), LocalError> {
    let folder = Folder::open(&root.file_record(path), path, cancel)?;
    if let Some(folder) = &folder
        && folder.load::<Record>()?.is_some_and(|record| record.generation > generation(state))
    {
        return Ok(());
    }
    if let Some(place) = Place::open(root, path)? {
        place.remove()?;
    }
    folder.map_or(Ok(()), Folder::remove)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failing(json: serde_json::Value) -> Vec<String> {
        let inputs = Property::from_json(&json).as_map().cloned().unwrap_or_default();
        check(inputs).1.into_iter().map(|failure| failure.property).collect()
    }

    #[test]
    fn each_mistake_is_told_with_its_property() {
        for path in ["/etc/passwd", "../x", "a/../../x", "", "a//b", "./a", "a/", "a\0b"] {
            assert_eq!(failing(serde_json::json!({"path": path, "content": ""})), ["path"], "{path:?}");
        }
        for mode in ["8", "7777", "0200", "", "-1", "+644", "0o644"] {
            assert_eq!(
                failing(serde_json::json!({"path": "a", "content": "", "mode": mode})),
                ["mode"],
                "{mode}"
            );
        }
        assert_eq!(failing(serde_json::json!({"content": ""})), ["path"]);
        assert_eq!(failing(serde_json::json!({"path": "a", "content": 1, "x": 1})), ["x", "content"]);
        assert!(
            failing(serde_json::json!({"path": "a b/ü\\\"::.txt", "content": "", "mode": "644"})).is_empty()
        );
    }

    #[test]
    fn a_secret_file_is_private_by_default() {
        let inputs = Properties::from([
            ("path".to_owned(), Property::text("a")),
            ("content".to_owned(), Property::text("x").into_secret()),
        ]);
        assert_eq!(check(inputs).0["mode"], Property::text("0600"));
    }
}
