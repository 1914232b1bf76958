use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ports::{Artifacts, Put, Receipts};
use runtime_cloud_embedded::{DiskArtifacts, DiskReceipts, RandomIds};

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = vec![];
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files.extend(self::files(&path)) } else { files.push(path) }
    }
    files
}

#[tokio::test]
async fn receipts_are_read_only_and_lie_below_their_folder() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("receipts");
    let receipts = DiskReceipts { folder: place.clone(), ids: Arc::new(RandomIds) };
    for key in ["blobs/a", "runs/acme/r1/intent", "chains/%2E%2E/%2F/0000000001"] {
        assert_eq!(receipts.put_once(key, key.as_bytes()).await.unwrap(), Put::Created);
        assert!(receipts.put_once(&format!("../{key}"), b"x").await.is_err());
    }
    let found = files(folder.path());
    assert_eq!(found.len(), 3, "temporary files stay behind: {found:?}");
    for file in found {
        assert!(file.starts_with(&place), "{file:?}");
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o400, "{file:?}");
    }
}

#[tokio::test]
async fn a_temporary_file_of_a_dead_writer_is_in_nobodys_way() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("blobs")).unwrap();
    std::fs::write(folder.path().join("blobs/.half.tmp"), b"ha").unwrap();
    let receipts = DiskReceipts { folder: folder.path().to_owned(), ids: Arc::new(RandomIds) };
    assert_eq!(receipts.put_once("blobs/half", b"half").await.unwrap(), Put::Created);
    assert_eq!(receipts.get("blobs/half").await.unwrap().as_deref(), Some(&b"half"[..]));
    assert!(receipts.get("blobs/.half.tmp").await.is_err());
}

#[tokio::test]
async fn artifacts_are_the_owners_alone() {
    let folder = tempfile::tempdir().unwrap();
    let artifacts = DiskArtifacts { folder: folder.path().to_owned(), ids: Arc::new(RandomIds) };
    artifacts.put(b"a state").await.unwrap();
    for file in files(folder.path()) {
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o077, 0, "{file:?}");
    }
}

#[tokio::test]
async fn a_folder_that_cannot_be_written_says_so_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("receipts");
    std::fs::write(&place, "a file where a folder should be").unwrap();
    let receipts = DiskReceipts { folder: place, ids: Arc::new(RandomIds) };
    let error = receipts.put_once("blobs/a", b"x").await.unwrap_err();
    assert!(error.is_temporary(), "{error}");
}
