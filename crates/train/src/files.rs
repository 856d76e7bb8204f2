//! Files that are either complete or not there, and that survive a crash once they are.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::error::TrainError;

/// What the name of a file ends in until it is complete.
const PARTIAL: &str = ".partial";

/// Who may read a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Whoever may read the folder.
    Shared,
    /// Only the owner, because the file comes straight from private records or is a key.
    Owner,
}

/// Writes a file so that, whenever the machine stops, either the old content or the new one is there, and the new one once this returns.
/// Nothing is written through a link.
pub(crate) fn write_atomic(path: &Path, bytes: &[u8]) -> Result<(), TrainError> {
    write_for(path, bytes, Access::Shared)
}

/// As [`write_atomic`], with a choice of who may read the file.
pub(crate) fn write_for(path: &Path, bytes: &[u8], access: Access) -> Result<(), TrainError> {
    let partial = partial_of(path);
    refuse_link(path)?;
    // A half-written file of an earlier process belongs to nobody, because this process holds the run. A link is removed, never followed.
    if fs::symlink_metadata(&partial).is_ok() {
        fs::remove_file(&partial).map_err(|source| TrainError::file(&partial, source))?;
    }
    let written = options(access).write(true).create_new(true).open(&partial).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    if let Err(source) = written.and_then(|()| fs::rename(&partial, path)) {
        // A half-written file must not fill the disk. If it cannot be removed, the first error says enough.
        let _ = fs::remove_file(&partial);
        return Err(TrainError::file(path, source));
    }
    sync_folder(folder_of(path))
}

/// The name of a file until it is complete.
pub(crate) fn partial_of(path: &Path) -> PathBuf {
    let mut partial = path.as_os_str().to_owned();
    partial.push(PARTIAL);
    PathBuf::from(partial)
}

/// Options for opening a file that may have to be made, with these permissions.
pub(crate) fn options(access: Access) -> fs::OpenOptions {
    let mut options = File::options();
    #[cfg(unix)]
    if access == Access::Owner {
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    }
    #[cfg(not(unix))]
    let _ = access;
    options
}

/// Refuses a name that stands for a link, a folder or a device instead of a file: whoever put it there would have us write elsewhere.
pub(crate) fn refuse_link(path: &Path) -> Result<(), TrainError> {
    match fs::symlink_metadata(path) {
        Ok(found) if !found.is_file() => Err(TrainError::InTheWay { path: path.to_owned() }),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(TrainError::file(path, source)),
    }
}

/// Makes a folder and those above it, so that each survives a crash.
pub(crate) fn create_folders(folder: &Path) -> Result<(), TrainError> {
    if folder.as_os_str().is_empty() || folder.is_dir() {
        return Ok(());
    }
    let above = folder_of(folder);
    create_folders(above)?;
    match fs::create_dir(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(TrainError::file(folder, error));
        }
        _ => {}
    }
    sync_folder(above)
}

/// Makes a folder that only its owner may look into, or closes it to others if it exists.
pub(crate) fn create_private_folder(folder: &Path) -> Result<(), TrainError> {
    if fs::symlink_metadata(folder).is_ok_and(|found| !found.is_dir()) {
        return Err(TrainError::InTheWay { path: folder.to_owned() });
    }
    create_folders(folder)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let closed = fs::Permissions::from_mode(0o700);
        fs::set_permissions(folder, closed).map_err(|source| TrainError::file(folder, source))?;
    }
    Ok(())
}

/// Makes a file readable by its owner alone, if it exists.
pub(crate) fn close_to_others(path: &Path) -> Result<(), TrainError> {
    #[cfg(unix)]
    if fs::symlink_metadata(path).is_ok_and(|found| found.is_file()) {
        use std::os::unix::fs::PermissionsExt;
        let closed = fs::Permissions::from_mode(0o600);
        fs::set_permissions(path, closed).map_err(|source| TrainError::file(path, source))?;
    }
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}

/// The folder that contains a path.
pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes the names in a folder survive a crash.
pub(crate) fn sync_folder(folder: &Path) -> Result<(), TrainError> {
    // Other systems cannot open a folder, and their renames last by themselves.
    if cfg!(unix) {
        File::open(folder)
            .and_then(|folder| folder.sync_all())
            .map_err(|source| TrainError::file(folder, source))?;
    }
    Ok(())
}

pub(crate) fn read(path: &Path) -> Result<Vec<u8>, TrainError> {
    regular(path).and_then(fs::read).map_err(|source| TrainError::file(path, source))
}

pub(crate) fn read_text(path: &Path) -> Result<String, TrainError> {
    regular(path).and_then(fs::read_to_string).map_err(|source| TrainError::file(path, source))
}

/// The path, if it leads to a file. A device has no end, and a pipe waits for a writer.
fn regular(path: &Path) -> io::Result<&Path> {
    match fs::metadata(path)?.is_file() {
        true => Ok(path),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a file")),
    }
}

/// Whether an open file is still the one that has this name.
pub(crate) fn is_at(file: &File, path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let (Ok(open), Ok(named)) = (file.metadata(), fs::symlink_metadata(path)) else { return false };
        (open.dev(), open.ino()) == (named.dev(), named.ino())
    }
    #[cfg(not(unix))]
    {
        let _ = file;
        path.is_file()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)]
    fn a_device_is_no_file_of_a_run() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("ledger.jsonl");
        std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
        for error in [read(&link).unwrap_err(), read_text(&link).unwrap_err()] {
            assert!(error.to_string().ends_with("ledger.jsonl: not a file"), "{error}");
        }
    }

    #[test]
    fn files_are_replaced_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file.json");
        write_atomic(&path, b"one").unwrap();
        write_atomic(&path, b"two").unwrap();
        assert_eq!(read(&path).unwrap(), b"two");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        let error = write_atomic(&folder.path().join("nowhere/file"), b"x").unwrap_err();
        assert!(error.to_string().contains("nowhere"), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn nothing_is_written_through_a_link_and_private_files_are_closed() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir().unwrap();
        let (foreign, link) = (folder.path().join("foreign"), folder.path().join("link"));
        fs::write(&foreign, "mine").unwrap();
        symlink(&foreign, &link).unwrap();
        assert!(matches!(write_atomic(&link, b"x"), Err(TrainError::InTheWay { .. })));
        symlink(&foreign, partial_of(&folder.path().join("file"))).unwrap();
        write_for(&folder.path().join("file"), b"x", Access::Owner).unwrap();
        assert_eq!(read(&foreign).unwrap(), b"mine");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&folder.path().join("file")), 0o600);
        create_private_folder(&folder.path().join("a/private")).unwrap();
        assert_eq!(mode(&folder.path().join("a/private")), 0o700);
        symlink(folder.path().join("a"), folder.path().join("b")).unwrap();
        assert!(matches!(create_private_folder(&folder.path().join("b")), Err(TrainError::InTheWay { .. })));
    }
}
