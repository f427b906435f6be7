//! Files that appear whole or not at all.

use std::io::Write;
use std::path::Path;

use crate::error::Error;

/// Writes a file under a temporary name beside `path`, flushes it to disk and renames it.
///
/// Whatever stood at `path` stays until the new file is whole; a failed write leaves nothing
/// behind.
pub(crate) fn write_atomically(
    path: &Path,
    write: impl FnOnce(&mut std::fs::File) -> Result<(), Error>,
) -> Result<(), Error> {
    let io = |source| Error::io(path, source);
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut file = tempfile::Builder::new()
        .prefix(".dunnart-")
        .permissions_like_new_files()
        .tempfile_in(folder)
        .map_err(io)?;
    write(file.as_file_mut())?;
    file.as_file_mut().flush().map_err(io)?;
    file.as_file().sync_all().map_err(io)?;
    file.persist(path)
        .map_err(|error| Error::io(path, error.error))?;
    // The rename is on disk only once the folder is; a system that cannot open folders has no such
    // call.
    if let Ok(folder) = std::fs::File::open(folder) {
        folder.sync_all().map_err(io)?;
    }
    Ok(())
}

trait Permissions {
    fn permissions_like_new_files(&mut self) -> &mut Self;
}

impl Permissions for tempfile::Builder<'_, '_> {
    /// Temporary files are private by default; a result is as readable as any new file.
    #[cfg(unix)]
    fn permissions_like_new_files(&mut self) -> &mut Self {
        use std::os::unix::fs::PermissionsExt;
        self.permissions(std::fs::Permissions::from_mode(0o666))
    }

    #[cfg(not(unix))]
    fn permissions_like_new_files(&mut self) -> &mut Self {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_keeps_the_old_file_and_leaves_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let put = |text: &'static str| {
            write_atomically(&path, move |file| {
                file.write_all(text.as_bytes())
                    .map_err(|e| Error::io(Path::new("a"), e))
            })
        };
        put("old").unwrap();
        let failed = write_atomically(&path, |file| {
            file.write_all(b"half")
                .map_err(|e| Error::io(Path::new("a"), e))?;
            Err(Error::Worker)
        });
        assert!(failed.is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
        put("new").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn a_result_is_as_readable_as_any_new_file() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let (plain, ours) = (folder.path().join("plain"), folder.path().join("ours"));
        std::fs::write(&plain, "").unwrap();
        write_atomically(&ours, |_| Ok(())).unwrap();
        let mode = |path| std::fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(ours), mode(plain));
    }

    #[test]
    fn a_missing_folder_names_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nowhere/a.npz");
        let error = write_atomically(&path, |_| Ok(())).unwrap_err();
        assert!(error.to_string().contains("nowhere/a.npz"), "{error}");
    }
}
