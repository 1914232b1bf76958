//! The official release: fetched, checked, unpacked.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use flate2::read::GzDecoder;
use sha2::{Digest, Sha256};
use tar::EntryType;

use super::{AttemptError, PULUMI_VERSION, Progress, ReleaseSettings};

/// More than any release unpacks to; an archive beyond it is no release.
const UNPACKED_LIMIT: u64 = 4 << 30;
/// More than any list of checksums.
const LIST_LIMIT: u64 = 1 << 20;

/// Fetches the release for this machine and puts its programs into `programs`.
pub(super) fn fetch(
    settings: &ReleaseSettings,
    programs: &Path,
    progress: &dyn Fn(Progress),
) -> Result<(), AttemptError> {
    let file = format!("pulumi-v{PULUMI_VERSION}-{}.tar.gz", machine()?);
    let url = format!("{}/{file}", settings.base_url.trim_end_matches('/'));
    let agent = agent();
    let expected = match &settings.sha256 {
        Some(pinned) => pinned.to_ascii_lowercase(),
        None => listed_checksum(&agent, &settings.checksums_url, &file)?,
    };
    // Unnamed: nothing is left of it, however this ends.
    let mut archive = tempfile::tempfile_in(programs)?;
    let found = download(&agent, &url, &mut archive, progress)?;
    if found != expected {
        return Err(AttemptError::WrongChecksum { url, expected, found });
    }
    progress(Progress::Unpacking);
    archive.rewind()?;
    unpack(archive, programs)
}

fn machine() -> Result<String, AttemptError> {
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    let names = match os {
        "linux" => Some("linux"),
        "macos" => Some("darwin"),
        _ => None,
    }
    .zip(match arch {
        "x86_64" => Some("x64"),
        "aarch64" => Some("arm64"),
        _ => None,
    });
    names
        .map(|(os, arch)| format!("{os}-{arch}"))
        .ok_or_else(|| AttemptError::NoSuchMachine { machine: format!("{os} {arch}") })
}

fn agent() -> ureq::Agent {
    // Short, so that a machine without a network goes on to the next way soon.
    ureq::Agent::config_builder()
        .timeout_resolve(Some(Duration::from_secs(5)))
        .timeout_connect(Some(Duration::from_secs(5)))
        .timeout_recv_response(Some(Duration::from_secs(15)))
        .timeout_recv_body(Some(Duration::from_secs(20 * 60)))
        .timeout_per_read(Some(Duration::from_secs(30)))
        .build()
        .into()
}

fn get(agent: &ureq::Agent, url: &str) -> Result<ureq::Body, AttemptError> {
    match agent.get(url).call() {
        Ok(answer) => Ok(answer.into_body()),
        Err(ureq::Error::StatusCode(status)) => Err(AttemptError::Refused { url: url.into(), status }),
        Err(error) => Err(AttemptError::Unreachable { url: url.into(), why: error.to_string() }),
    }
}

fn listed_checksum(agent: &ureq::Agent, url: &str, file: &str) -> Result<String, AttemptError> {
    let list = get(agent, url)?
        .into_with_config()
        .limit(LIST_LIMIT)
        .read_to_string()
        .map_err(|error| AttemptError::Unreachable { url: url.into(), why: error.to_string() })?;
    list.lines()
        .find_map(|line| {
            let (checksum, name) = line.split_once(char::is_whitespace)?;
            let right = name.trim().trim_start_matches('*') == file && checksum.len() == 64;
            right.then(|| checksum.to_ascii_lowercase())
        })
        .ok_or_else(|| AttemptError::NoChecksum { url: url.into(), file: file.into() })
}

/// Writes the archive into a file and returns its SHA-256.
fn download(
    agent: &ureq::Agent,
    url: &str,
    archive: &mut File,
    progress: &dyn Fn(Progress),
) -> Result<String, AttemptError> {
    let body = get(agent, url)?;
    let total = body.content_length();
    let mut reader = body.into_reader();
    let mut digest = Sha256::new();
    let mut block = vec![0_u8; 256 * 1024];
    let mut received = 0_u64;
    loop {
        let count = match reader.read(&mut block) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return Err(AttemptError::Incomplete { url: url.into(), received }),
        };
        let read = block.get(..count).unwrap_or_default();
        digest.update(read);
        archive.write_all(read)?;
        received += u64::try_from(count).unwrap_or(0);
        progress(Progress::Downloading { received, total });
    }
    if total.is_some_and(|total| total != received) {
        return Err(AttemptError::Incomplete { url: url.into(), received });
    }
    Ok(hex::encode(digest.finalize()))
}

/// Unpacks plain files only, each directly into `programs`: a release is one flat folder of programs.
fn unpack(archive: File, programs: &Path) -> Result<(), AttemptError> {
    let refused = |why: String| AttemptError::BadArchive { why };
    let broken = |error: io::Error| AttemptError::BadArchive { why: error.to_string() };
    let mut archive = tar::Archive::new(GzDecoder::new(io::BufReader::new(archive)));
    let mut left = UNPACKED_LIMIT;
    for entry in archive.entries().map_err(broken)? {
        let mut entry = entry.map_err(broken)?;
        let path = entry.path().map_err(broken)?.into_owned();
        match entry.header().entry_type() {
            EntryType::Directory | EntryType::XGlobalHeader => continue,
            EntryType::Regular => {}
            other => return Err(refused(format!("{} is a {other:?}", path.display()))),
        }
        let name = flat_name(&path)
            .ok_or_else(|| refused(format!("{} does not belong into a release", path.display())))?;
        let size = entry.size();
        left = left.checked_sub(size).ok_or_else(|| refused("it is too large".into()))?;
        let mode = if entry.header().mode().map_err(broken)? & 0o111 == 0 { 0o644 } else { 0o755 };
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(mode).open(programs.join(&name));
        let mut file = match file {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(refused(format!("{} is in it twice", name.display())));
            }
            other => other?,
        };
        let written = io::copy(&mut entry, &mut file).map_err(broken)?;
        if written != size {
            return Err(refused(format!("{} is cut short", name.display())));
        }
        file.sync_all()?;
    }
    Ok(())
}

/// The file's name if the path is `pulumi/NAME` (or `pulumi/bin/NAME`, as elsewhere), and nothing else.
fn flat_name(path: &Path) -> Option<PathBuf> {
    let mut parts = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(part) => parts.push(part),
            Component::CurDir => {}
            Component::RootDir | Component::ParentDir | Component::Prefix(_) => return None,
        }
    }
    match parts.as_slice() {
        [top, name] if *top == "pulumi" => Some(PathBuf::from(name)),
        [top, bin, name] if *top == "pulumi" && *bin == "bin" => Some(PathBuf::from(name)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_the_release_folder_have_a_name() {
        assert_eq!(flat_name(Path::new("pulumi/pulumi")), Some("pulumi".into()));
        assert_eq!(flat_name(Path::new("./pulumi/bin/pulumi")), Some("pulumi".into()));
        for path in ["/pulumi/x", "pulumi/../x", "../x", "x", "pulumi/a/b", "other/x", "pulumi/bin/.."] {
            assert_eq!(flat_name(Path::new(path)), None, "{path}");
        }
    }
}
