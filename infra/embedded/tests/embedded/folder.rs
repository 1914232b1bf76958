use std::os::unix::fs::PermissionsExt;

use runtime_cloud_embedded::{DataFolder, FolderError};

#[test]
fn a_second_host_is_refused_and_told_who_has_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let first = DataFolder::lock(folder.path()).unwrap();
    let error = DataFolder::lock(folder.path()).err().unwrap();
    assert!(
        matches!(&error, FolderError::Taken { pid, .. } if *pid == std::process::id().to_string()),
        "{error}"
    );
    let error = error.to_string();
    assert!(error.contains(&std::process::id().to_string()) && error.contains("--data"), "{error}");
    drop(first);
    assert_eq!(DataFolder::lock(folder.path()).unwrap().path(), folder.path());
}

#[test]
fn nobody_else_may_look_into_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("secrets")).unwrap();
    std::fs::set_permissions(folder.path().join("secrets"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let _lock = DataFolder::lock(folder.path()).unwrap();
    for part in ["", "receipts", "artifacts", "secrets", "backups"] {
        let mode = std::fs::metadata(folder.path().join(part)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{part}");
    }
}

#[test]
fn a_folder_that_is_a_file_is_refused_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("data");
    std::fs::write(&file, "x").unwrap();
    let error = DataFolder::lock(&file).err().unwrap().to_string();
    assert!(error.contains("--data"), "{error}");
}
