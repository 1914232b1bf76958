//! Finding, fetching and building Pulumi, against a small server on this machine.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test says what it expects and stops there"
)]

use std::ffi::OsString;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use runtime_cloud_pulumi::tools::{
    AttemptError, GoSettings, MINIMUM_VERSION, Origin, PULUMI_VERSION, Progress, ReleaseSettings, ToolsError,
    ToolsSettings, Way, find_or_get,
};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

/// Something that answers `pulumi version`.
fn script(version: &str) -> Vec<u8> {
    format!("#!/bin/sh\necho v{version}\n").into_bytes()
}

fn program(folder: &Path, name: &str, text: &[u8]) -> PathBuf {
    fs::create_dir_all(folder).unwrap();
    let file = folder.join(name);
    fs::write(&file, text).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    file
}

fn archive(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut tar = tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    for (path, content) in entries {
        let mut header = tar::Header::new_gnu();
        header.set_size(u64::try_from(content.len()).unwrap());
        header.set_mode(0o755);
        // Written raw: the builder itself would refuse a path that leaves the archive.
        let name = &mut header.as_gnu_mut().unwrap().name;
        name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_cksum();
        tar.append(&header, *content).unwrap();
    }
    tar.into_inner().unwrap().finish().unwrap()
}

fn good_archive() -> Vec<u8> {
    let pulumi = script(&PULUMI_VERSION.to_string());
    archive(&[("pulumi/pulumi", &pulumi), ("pulumi/pulumi-language-yaml", b"#!/bin/sh\n")])
}

fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// Serves an archive and a list of checksums to any number of callers, and counts the archives.
struct Server {
    url: String,
    archives: Arc<AtomicUsize>,
}

impl Server {
    /// `announced` is the length that the server promises; it sends what it has.
    fn new(archive: Vec<u8>, announced: usize, listed: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let archives = Arc::new(AtomicUsize::new(0));
        let (count, listed) = (archives.clone(), listed.to_owned());
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                let Ok(mut connection) = connection else { continue };
                let mut request = Vec::new();
                let mut byte = [0_u8; 1];
                while !request.ends_with(b"\r\n\r\n") && connection.read(&mut byte).unwrap_or(0) == 1 {
                    request.push(byte[0]);
                }
                let path = String::from_utf8_lossy(&request).split(' ').nth(1).unwrap_or_default().to_owned();
                let (length, body) = if path == "/checksums.txt" {
                    let file =
                        "pulumi-vVERSION-linux-x64.tar.gz\n".replace("VERSION", &PULUMI_VERSION.to_string());
                    let other = format!("{}  other.tar.gz\n", "0".repeat(64));
                    let arm = file.replace("x64", "arm64");
                    let list = format!("{other}{listed}  {file}{listed}  {arm}").into_bytes();
                    (list.len(), list)
                } else if path.starts_with(&format!("/sdk/pulumi-v{PULUMI_VERSION}-")) {
                    count.fetch_add(1, Ordering::SeqCst);
                    (announced, archive.clone())
                } else {
                    let _ = connection.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
                    continue;
                };
                let head =
                    format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
                let _ = connection.write_all(head.as_bytes()).and_then(|()| connection.write_all(&body));
            }
        });
        Self { url, archives }
    }

    fn good() -> Self {
        let archive = good_archive();
        let (length, checksum) = (archive.len(), sha256(&archive));
        Self::new(archive, length, &checksum)
    }

    fn release(&self) -> ReleaseSettings {
        ReleaseSettings {
            base_url: format!("{}/sdk/", self.url),
            checksums_url: format!("{}/checksums.txt", self.url),
            sha256: None,
        }
    }
}

fn only(folder: &TempDir, release: Option<ReleaseSettings>) -> ToolsSettings {
    ToolsSettings { search_path: None, cache: folder.path().join("cache"), release, go: None }
}

fn quiet(_: Progress) {}

/// The error of one way.
fn failure(settings: &ToolsSettings, way: Way) -> AttemptError {
    match find_or_get(settings, &quiet) {
        Err(ToolsError::NoWay { attempts }) => {
            attempts.into_iter().find(|attempt| attempt.way == way).unwrap().error
        }
        other => panic!("{other:?}"),
    }
}

fn assert_nothing_left(folder: &TempDir) {
    let left: Vec<_> =
        fs::read_dir(folder.path().join("cache")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["lock"]);
}

#[test]
fn a_release_with_the_right_checksum_is_kept_and_used_again() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::good();
    let settings = only(&folder, Some(server.release()));
    let first = find_or_get(&settings, &quiet).unwrap();
    assert_eq!(first.origin, Origin::Release);
    assert_eq!(first.version, PULUMI_VERSION);
    assert_eq!(first.digests["pulumi"], sha256(&script(&PULUMI_VERSION.to_string())));
    assert!(first.digests.contains_key("pulumi-language-yaml"));
    assert!(first.path_dirs[0].join("pulumi-language-yaml").exists());
    let second = find_or_get(&settings, &quiet).unwrap();
    assert_eq!(second.origin, Origin::Cached);
    assert_eq!(second.digests, first.digests);
    assert_eq!(server.archives.load(Ordering::SeqCst), 1);
    // Neither the archive nor a half-filled folder stays.
    let left = fs::read_dir(folder.path().join("cache")).unwrap().count();
    assert_eq!(left, 2);
}

#[test]
fn progress_counts_the_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let settings = only(&folder, Some(Server::good().release()));
    let seen = std::sync::Mutex::new(Vec::new());
    find_or_get(&settings, &|progress| seen.lock().unwrap().push(progress)).unwrap();
    let length = u64::try_from(good_archive().len()).unwrap();
    let seen = seen.into_inner().unwrap();
    assert!(seen.contains(&Progress::Downloading { received: length, total: Some(length) }));
    assert_eq!(seen.last(), Some(&Progress::Unpacking));
}

#[test]
fn a_wrong_checksum_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let archive = good_archive();
    let server = Server::new(archive.clone(), archive.len(), &"a".repeat(64));
    let error = failure(&only(&folder, Some(server.release())), Way::Release);
    assert!(matches!(error, AttemptError::WrongChecksum { .. }), "{error:?}");
    assert_nothing_left(&folder);
}

#[test]
fn a_pinned_checksum_counts_more_than_the_list() {
    let folder = tempfile::tempdir().unwrap();
    let archive = good_archive();
    let server = Server::new(archive.clone(), archive.len(), &"a".repeat(64));
    let mut release = server.release();
    release.sha256 = Some("b".repeat(64));
    let error = failure(&only(&folder, Some(release.clone())), Way::Release);
    assert!(matches!(error, AttemptError::WrongChecksum { .. }), "{error:?}");
    release.sha256 = Some(sha256(&archive).to_uppercase());
    assert!(find_or_get(&only(&folder, Some(release)), &quiet).is_ok());
}

#[test]
fn half_a_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let archive = good_archive();
    let (length, checksum) = (archive.len(), sha256(&archive));
    let server = Server::new(archive[..length / 2].to_vec(), length, &checksum);
    let error = failure(&only(&folder, Some(server.release())), Way::Release);
    assert!(matches!(error, AttemptError::Incomplete { .. }), "{error:?}");
    assert_nothing_left(&folder);
}

#[test]
fn no_server_is_an_error_that_names_the_ways_out() {
    let folder = tempfile::tempdir().unwrap();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", closed.local_addr().unwrap());
    drop(closed);
    let release =
        ReleaseSettings { base_url: url.clone(), checksums_url: format!("{url}/list"), sha256: None };
    let settings = only(&folder, Some(release));
    let error = failure(&settings, Way::Release);
    assert!(matches!(error, AttemptError::Unreachable { .. }), "{error:?}");
    let text = find_or_get(&settings, &quiet).unwrap_err().to_string();
    for part in ["Install Pulumi", "on PATH", "release", "install Go", url.as_str()] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    assert_nothing_left(&folder);
}

#[test]
fn a_server_without_the_release_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let mut release = Server::good().release();
    release.base_url = release.base_url.replace("/sdk/", "/elsewhere");
    let error = failure(&only(&folder, Some(release)), Way::Release);
    assert!(matches!(error, AttemptError::Refused { status: 404, .. }), "{error:?}");
}

#[test]
fn a_list_without_the_archive_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let archive = good_archive();
    let server = Server::new(archive.clone(), archive.len(), "short");
    let error = failure(&only(&folder, Some(server.release())), Way::Release);
    assert!(matches!(error, AttemptError::NoChecksum { .. }), "{error:?}");
}

#[test]
fn an_archive_that_leaves_its_folder_is_refused() {
    for path in ["pulumi/../../escaped", "/tmp/escaped", "pulumi/deep/er", "../escaped", "elsewhere/pulumi"] {
        let folder = tempfile::tempdir().unwrap();
        let archive = archive(&[(path, b"x")]);
        let server = Server::new(archive.clone(), archive.len(), &sha256(&archive));
        let error = failure(&only(&folder, Some(server.release())), Way::Release);
        assert!(matches!(error, AttemptError::BadArchive { .. }), "{path}: {error:?}");
        assert_nothing_left(&folder);
    }
}

#[test]
fn an_archive_without_the_yaml_host_or_with_another_version_is_refused() {
    let right = script(&PULUMI_VERSION.to_string());
    let incomplete = archive(&[("pulumi/pulumi", &right)]);
    let other =
        archive(&[("pulumi/pulumi", &script("3.1.0")), ("pulumi/pulumi-language-yaml", b"#!/bin/sh\n")]);
    for archive in [incomplete, other, b"not an archive".to_vec()] {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::new(archive.clone(), archive.len(), &sha256(&archive));
        failure(&only(&folder, Some(server.release())), Way::Release);
        assert_nothing_left(&folder);
    }
}

#[test]
fn a_kept_program_that_was_changed_is_not_used_but_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::good();
    let settings = only(&folder, Some(server.release()));
    let kept = find_or_get(&settings, &quiet).unwrap();
    fs::write(&kept.pulumi, "#!/bin/sh\necho stolen\n").unwrap();
    let offline = only(&folder, None);
    let error = failure(&offline, Way::Cached);
    assert!(matches!(error, AttemptError::Changed { program } if program == "pulumi"));
    let again = find_or_get(&settings, &quiet).unwrap();
    assert_eq!(again, kept);
    assert_eq!(find_or_get(&offline, &quiet).unwrap().origin, Origin::Cached);
}

#[test]
fn what_a_killed_process_left_is_cleared_away() {
    let folder = tempfile::tempdir().unwrap();
    program(&folder.path().join("cache/.unfinished-x/bin"), "pulumi", b"half");
    failure(&only(&folder, None), Way::Cached);
    assert_nothing_left(&folder);
}

#[test]
fn of_many_callers_one_fetches() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::good();
    let settings = only(&folder, Some(server.release()));
    let together = Barrier::new(4);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                together.wait();
                find_or_get(&settings, &quiet).unwrap();
            });
        }
    });
    assert_eq!(server.archives.load(Ordering::SeqCst), 1);
}

fn on_path(folder: &TempDir, path: OsString) -> ToolsSettings {
    ToolsSettings { search_path: Some(path), ..only(folder, None) }
}

#[test]
fn installed_tools_are_used_wherever_the_host_lies_on_the_path() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (folder.path().join("one"), folder.path().join("two"));
    let pulumi = program(&one, "pulumi", &script("3.999.0"));
    program(&two, "pulumi-language-yaml", b"#!/bin/sh\n");
    program(&two, "pulumi-language-nodejs", b"#!/bin/sh\n");
    let settings = on_path(&folder, std::env::join_paths([&one, &two]).unwrap());
    let tools = find_or_get(&settings, &quiet).unwrap();
    assert_eq!(tools.origin, Origin::Installed);
    assert_eq!(tools.pulumi, pulumi);
    assert_eq!(tools.path_dirs, [two]);
    assert_eq!(tools.version.to_string(), "3.999.0");
    let named: Vec<&str> = tools.digests.keys().map(String::as_str).collect();
    assert_eq!(named, ["pulumi", "pulumi-language-nodejs", "pulumi-language-yaml"]);
}

#[test]
fn an_installed_pulumi_that_is_old_broken_or_alone_is_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let bin = folder.path().join("bin");
    let settings = on_path(&folder, bin.clone().into());
    assert!(matches!(failure(&settings, Way::Installed), AttemptError::Absent { .. }));
    program(&bin, "pulumi", &script("3.1.0"));
    assert!(matches!(failure(&settings, Way::Installed), AttemptError::TooOld { .. }));
    program(&bin, "pulumi", b"#!/bin/sh\nexit 1\n");
    assert!(matches!(failure(&settings, Way::Installed), AttemptError::DoesNotRun { .. }));
    program(&bin, "pulumi", &script(&MINIMUM_VERSION.to_string()));
    let error = failure(&settings, Way::Installed);
    assert!(matches!(error, AttemptError::Absent { program } if program == "pulumi-language-yaml"));
}

/// A `go` that writes what it was asked for where it was told to.
fn fake_go(folder: &TempDir, body: &str) -> GoSettings {
    let text = format!("#!/bin/sh\nwhile [ $# -gt 0 ]; do [ \"$1\" = -o ] && out=$2; shift; done\n{body}\n");
    let program = program(&folder.path().join("go"), "go", text.as_bytes());
    GoSettings { program, limit: Duration::from_secs(60) }
}

#[test]
fn both_programs_are_built_with_go() {
    let folder = tempfile::tempdir().unwrap();
    let body = format!(
        "grep -q 'require github.com/pulumi' go.mod || exit 1; echo compiling >&2\n\
         printf '#!/bin/sh\\necho v{PULUMI_VERSION}\\n' > $out; chmod 755 $out"
    );
    let settings = ToolsSettings { go: Some(fake_go(&folder, &body)), ..only(&folder, None) };
    let seen = std::sync::Mutex::new(Vec::new());
    let tools = find_or_get(&settings, &|progress| seen.lock().unwrap().push(progress)).unwrap();
    assert_eq!(tools.origin, Origin::Built);
    assert_eq!(tools.digests.len(), 2);
    let line = |program| Progress::Building { program, line: "compiling".into() };
    assert_eq!(seen.into_inner().unwrap(), [line("pulumi"), line("pulumi-language-yaml")]);
    assert_eq!(find_or_get(&only(&folder, None), &quiet).unwrap().origin, Origin::Cached);
}

#[test]
fn a_failed_or_endless_or_missing_go_is_an_error_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut settings = only(&folder, None);
    settings.go = Some(fake_go(&folder, "echo no such module >&2; exit 1"));
    let error = failure(&settings, Way::Built);
    assert!(matches!(error, AttemptError::BuildFailed { last_lines, .. } if last_lines == "no such module"));
    settings.go = Some(GoSettings { limit: Duration::from_millis(50), ..fake_go(&folder, "exec sleep 600") });
    assert!(matches!(failure(&settings, Way::Built), AttemptError::TooSlow { .. }));
    settings.go = Some(GoSettings { program: "/no/such/go".into(), limit: Duration::from_secs(1) });
    assert!(matches!(failure(&settings, Way::Built), AttemptError::Absent { .. }));
    assert_nothing_left(&folder);
}

/// The real programs: in the folder that RUNTIME_CLOUD_TEST_PULUMI names, else on PATH.
#[test]
fn the_real_pulumi_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = std::env::var_os("RUNTIME_CLOUD_TEST_PULUMI").or_else(|| std::env::var_os("PATH")).unwrap();
    let tools = find_or_get(&on_path(&folder, path), &quiet).unwrap_or_else(|error| {
        panic!("set RUNTIME_CLOUD_TEST_PULUMI to a folder with Pulumi in it: {error}")
    });
    assert!(tools.version >= MINIMUM_VERSION);
}

/// The real thing, from real modules.
#[test]
#[ignore = "builds Pulumi: minutes, and a Go module proxy"]
fn the_real_pulumi_is_built() {
    let folder = tempfile::tempdir().unwrap();
    let usual = ToolsSettings::usual();
    let settings = ToolsSettings { go: usual.go, ..only(&folder, None) };
    let tools = find_or_get(&settings, &quiet).unwrap();
    assert_eq!((tools.origin, tools.version), (Origin::Built, PULUMI_VERSION));
}
