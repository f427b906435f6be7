//! A file appears under its name only when it is whole.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::{Error, Lock, Result};

/// How often a failed write is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// Attempts in all, at least 1.
    pub attempts: u32,
    /// Pause before the second attempt; each further pause is twice as long.
    pub pause: Duration,
}

impl Default for Retry {
    /// Five attempts within 1.5 seconds.
    fn default() -> Self {
        Self {
            attempts: 5,
            pause: Duration::from_millis(100),
        }
    }
}

/// Options of [`atomic_write`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// How often a failed write is tried again.
    pub retry: Retry,
    /// Whether the file that is replaced stays under its [`previous_path`].
    pub keep_previous: bool,
}

/// `model.previous.safetensors` for `model.safetensors`: where a replaced file is kept.
pub fn previous_path(path: &Path) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_os_string();
    name.push(".previous");
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

/// Writes a file so that its name shows the old content or the whole new one, never anything between.
///
/// The content goes to `.NAME.partial` in the same folder, is flushed to the device and renamed; then
/// the folder is flushed. A kill at any instant leaves the old file or the new one. One writer a path:
/// see [`Lock`]. What may pass (a busy or stale network file system, a quota) is tried again, calling
/// `write` from the start; what cannot (no such folder, no permission) is not. A symbolic link is
/// followed, so that the link survives.
///
/// # Errors
/// [`Error::Io`] with the failed step, [`Error::Locked`], [`Error::Target`]. The old file is untouched.
pub fn atomic_write(
    path: &Path,
    options: &WriteOptions,
    mut write: impl FnMut(&mut dyn Write) -> io::Result<()>,
) -> Result<()> {
    let target = match fs::metadata(path) {
        Ok(found) if found.is_file() => fs::canonicalize(path).unwrap_or_else(|_| path.into()),
        Ok(found) if found.is_dir() => {
            return Err(Error::Target {
                path: path.into(),
                reason: "it is a folder",
            });
        }
        Ok(_) => {
            return Err(Error::Target {
                path: path.into(),
                reason: "it is no regular file",
            });
        }
        Err(_) => path.into(),
    };
    let attempts = options.retry.attempts.max(1);
    let mut pause = options.retry.pause;
    let mut attempt = 1;
    loop {
        let error = match attempt_write(&mut System, &target, options.keep_previous, &mut write) {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        let (error, again) = match error {
            Error::Io { action, source, .. } => {
                let again = may_pass(source.kind());
                (
                    Error::Io {
                        path: path.into(),
                        action,
                        attempts: attempt,
                        source,
                    },
                    again,
                )
            }
            Error::Locked { .. } => (error, true),
            other => (other, false),
        };
        if !again || attempt >= attempts {
            return Err(error);
        }
        std::thread::sleep(pause);
        pause *= 2;
        attempt += 1;
    }
}

/// Whether a fault of this kind can go away by itself.
fn may_pass(kind: ErrorKind) -> bool {
    !matches!(
        kind,
        ErrorKind::PermissionDenied
            | ErrorKind::NotFound
            | ErrorKind::ReadOnlyFilesystem
            | ErrorKind::NotADirectory
            | ErrorKind::IsADirectory
            | ErrorKind::InvalidFilename
            | ErrorKind::InvalidInput
            | ErrorKind::InvalidData
            | ErrorKind::FileTooLarge
            | ErrorKind::Unsupported
    )
}

/// `.NAME.EXTENSION` beside `path`.
pub(crate) fn sibling(path: &Path, extension: &str) -> Result<PathBuf> {
    let name = path.file_name().ok_or(Error::Target {
        path: path.into(),
        reason: "it has no file name",
    })?;
    let mut hidden = OsString::from(".");
    hidden.push(name);
    hidden.push(".");
    hidden.push(extension);
    Ok(path.with_file_name(hidden))
}

/// The operations a write consists of, so that tests can make each of them fail.
trait FileSystem {
    fn create(&mut self, path: &Path) -> io::Result<Box<dyn Output>>;
    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()>;
    fn link(&mut self, original: &Path, link: &Path) -> io::Result<()>;
    fn flush_folder(&mut self, folder: &Path) -> io::Result<()>;
}

/// An open file.
trait Output: Write {
    fn flush_to_device(&mut self) -> io::Result<()>;
}

impl Output for File {
    fn flush_to_device(&mut self) -> io::Result<()> {
        self.sync_all()
    }
}

struct System;

impl FileSystem for System {
    fn create(&mut self, path: &Path) -> io::Result<Box<dyn Output>> {
        Ok(Box::new(File::create(path)?))
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn link(&mut self, original: &Path, link: &Path) -> io::Result<()> {
        fs::hard_link(original, link)
    }

    fn flush_folder(&mut self, folder: &Path) -> io::Result<()> {
        File::open(folder)?.sync_all()
    }
}

fn attempt_write(
    system: &mut dyn FileSystem,
    path: &Path,
    keep_previous: bool,
    write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
) -> Result<()> {
    let at = |action: &'static str| {
        move |source| Error::Io {
            path: path.into(),
            action,
            attempts: 1,
            source,
        }
    };
    let partial = sibling(path, "partial")?;
    let _lock = Lock::acquire(path)?;
    let result = (|| {
        let file = system
            .create(&partial)
            .map_err(at("create its temporary file"))?;
        let mut file = BufWriter::with_capacity(1 << 20, file);
        write(&mut file).map_err(at("write it"))?;
        let mut file = file
            .into_inner()
            .map_err(|e| at("write it")(e.into_error()))?;
        file.flush_to_device()
            .map_err(at("flush it to the device"))?;
        drop(file);
        if keep_previous && path.exists() {
            keep(system, path).map_err(at("keep the file it replaces"))?;
        }
        system
            .rename(&partial, path)
            .map_err(at("give it its name"))?;
        let folder = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        system.flush_folder(folder).map_err(at("flush its folder"))
    })();
    if result.is_err() {
        let _ = fs::remove_file(&partial);
    }
    result
}

/// Gives the file at `path` its previous name as well, without a moment in which neither exists.
fn keep(system: &mut dyn FileSystem, path: &Path) -> io::Result<()> {
    let previous = previous_path(path);
    let step = sibling(&previous, "partial").map_err(io::Error::other)?;
    match fs::remove_file(&step) {
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    match system.link(path, &step) {
        // Some network file systems have no hard links.
        Err(e)
            if matches!(
                e.kind(),
                ErrorKind::Unsupported | ErrorKind::PermissionDenied
            ) =>
        {
            fs::copy(path, &step)?;
            File::open(&step)?.sync_all()?;
        }
        other => other?,
    }
    system.rename(&step, &previous)?;
    // Renaming a link onto another link of the same file leaves both names.
    match fs::remove_file(&step) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails the operation of the given number, once or for good.
    struct Faulty<'a> {
        fail_at: u32,
        forever: bool,
        count: &'a mut u32,
    }

    struct FaultyOutput {
        file: File,
        fail_write: bool,
        fail_flush: bool,
    }

    impl Faulty<'_> {
        fn fails(&mut self) -> bool {
            *self.count += 1;
            *self.count == self.fail_at || (self.forever && *self.count > self.fail_at)
        }

        fn check(&mut self) -> io::Result<()> {
            if self.fails() {
                Err(io::Error::from(ErrorKind::StaleNetworkFileHandle))
            } else {
                Ok(())
            }
        }
    }

    impl FileSystem for Faulty<'_> {
        fn create(&mut self, path: &Path) -> io::Result<Box<dyn Output>> {
            self.check()?;
            let (fail_write, fail_flush) = (self.fails(), self.fails());
            Ok(Box::new(FaultyOutput {
                file: File::create(path)?,
                fail_write,
                fail_flush,
            }))
        }

        fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
            self.check()?;
            System.rename(from, to)
        }

        fn link(&mut self, original: &Path, link: &Path) -> io::Result<()> {
            self.check()?;
            System.link(original, link)
        }

        fn flush_folder(&mut self, folder: &Path) -> io::Result<()> {
            self.check()?;
            System.flush_folder(folder)
        }
    }

    impl Write for FaultyOutput {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.fail_write {
                // Half of it reaches the file, as on a device that runs full.
                self.file.write_all(&bytes[..bytes.len() / 2])?;
                return Err(io::Error::from(ErrorKind::StorageFull));
            }
            self.file.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            self.file.flush()
        }
    }

    impl Output for FaultyOutput {
        fn flush_to_device(&mut self) -> io::Result<()> {
            if self.fail_flush {
                Err(io::Error::from(ErrorKind::TimedOut))
            } else {
                Ok(())
            }
        }
    }

    fn text(text: &'static str) -> impl FnMut(&mut dyn Write) -> io::Result<()> {
        move |out| out.write_all(text.as_bytes())
    }

    /// Names in a folder, sorted.
    fn names(folder: &Path) -> Vec<String> {
        let name = |e: io::Result<fs::DirEntry>| e.unwrap().file_name().into_string().unwrap();
        let mut names: Vec<_> = fs::read_dir(folder).unwrap().map(name).collect();
        names.sort();
        names
    }

    #[test]
    fn case_27b_every_operation_may_fail_and_nothing_is_lost() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("my model.bin");
        for fail_at in 1..=7 {
            for forever in [false, true] {
                atomic_write(&path, &WriteOptions::default(), text("old")).unwrap();
                let mut count = 0;
                let mut system = Faulty {
                    fail_at,
                    forever,
                    count: &mut count,
                };
                attempt_write(&mut system, &path, true, &mut text("new")).unwrap_err();
                // Only the flush of the folder comes after the rename.
                let expected = if fail_at == 7 { "new" } else { "old" };
                assert_eq!(
                    fs::read_to_string(&path).unwrap(),
                    expected,
                    "operation {fail_at}"
                );
                let mut system = Faulty {
                    fail_at: 0,
                    forever: false,
                    count: &mut count,
                };
                attempt_write(&mut system, &path, true, &mut text("new")).unwrap();
                assert_eq!(fs::read_to_string(&path).unwrap(), "new");
            }
        }
        assert_eq!(
            names(folder.path()),
            ["my model.bin", "my model.previous.bin"]
        );
    }

    #[test]
    fn case_27b_transient_faults_are_tried_again_and_permanent_ones_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history.txt");
        let retry = Retry {
            attempts: 3,
            pause: Duration::from_millis(1),
        };
        let options = WriteOptions {
            retry,
            keep_previous: false,
        };
        let write = |failures: u32, kind: ErrorKind| {
            let mut calls = 0;
            let result = atomic_write(&path, &options, |out| {
                calls += 1;
                out.write_all(b"row")?;
                if calls <= failures {
                    Err(kind.into())
                } else {
                    Ok(())
                }
            });
            (calls, result.is_ok())
        };
        assert_eq!(write(2, ErrorKind::StaleNetworkFileHandle), (3, true));
        assert_eq!(write(3, ErrorKind::StaleNetworkFileHandle), (3, false));
        assert_eq!(write(1, ErrorKind::PermissionDenied), (1, false));
        assert_eq!(fs::read_to_string(&path).unwrap(), "row");
        assert_eq!(names(folder.path()), ["history.txt"]);
    }

    #[test]
    fn previous_file_is_kept_on_request() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        let options = WriteOptions {
            keep_previous: true,
            ..WriteOptions::default()
        };
        for content in ["1", "2", "3"] {
            atomic_write(&path, &options, text(content)).unwrap();
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "3");
        assert_eq!(fs::read_to_string(previous_path(&path)).unwrap(), "2");
        assert_eq!(
            names(folder.path()),
            ["model.previous.safetensors", "model.safetensors"]
        );
    }

    #[test]
    fn what_is_no_file_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |path: &Path| {
            atomic_write(path, &WriteOptions::default(), text("x"))
                .unwrap_err()
                .to_string()
        };
        assert!(refused(folder.path()).contains("it is a folder"));
        assert!(refused(Path::new("/dev/null")).contains("it is no regular file"));
        assert!(refused(&folder.path().join("none/model")).contains("cannot make its lock file"));
        assert!(refused(Path::new("/proc/model")).contains("/proc/model"));
        assert!(refused(Path::new("")).contains("no file name"));
    }

    #[test]
    fn case_27b_a_path_that_another_writer_holds_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model");
        let options = WriteOptions {
            retry: Retry {
                attempts: 2,
                pause: Duration::from_millis(1),
            },
            keep_previous: false,
        };
        atomic_write(&path, &options, text("mine")).unwrap();
        let lock = Lock::acquire(&path).unwrap();
        let error = atomic_write(&path, &options, text("yours")).unwrap_err();
        assert!(matches!(error, Error::Locked { .. }), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
        drop(lock);
        atomic_write(&path, &options, text("yours")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "yours");
    }

    #[test]
    fn a_link_survives() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        fs::write(&real, "old").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        atomic_write(&link, &WriteOptions::default(), text("new")).unwrap();
        assert_eq!(fs::read_to_string(&real).unwrap(), "new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    }
}
