//! What the log needs of a file system, as a seam: the real one, or one that fails on demand
//! (the module `faults`).

use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A file system, reduced to what a log does with it.
pub trait Files: Send + Sync + 'static {
    /// Makes the folder and its parents if they are missing, so that they survive a crash.
    fn create_dir(&self, dir: &Path) -> io::Result<()>;

    /// Returns the names in a folder, in any order.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;

    /// Makes a file that must not exist yet. Its name is safe after [`Files::sync_dir`].
    fn create(&self, path: &Path) -> io::Result<Box<dyn File>>;

    fn open(&self, path: &Path) -> io::Result<Box<dyn File>>;

    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes the creations and removals in a folder safe.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
}

/// An open file.
pub trait File: Send + Sync {
    fn size(&self) -> io::Result<u64>;

    /// Reads at most the buffer's length; 0 is the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes some of the bytes, perhaps not all, and says how many.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;

    fn truncate(&self, size: u64) -> io::Result<()>;

    /// Returns when the disk has the data and the size. After an error it is unknown which of
    /// the bytes it has, and asking again would answer for new bytes only.
    fn sync(&self) -> io::Result<()>;
}

/// Writes all of the bytes.
pub(crate) fn write_all(file: &dyn File, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write_at(bytes, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                bytes = &bytes[count..];
                offset += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Fills the buffer, or fails when the file ends before.
pub(crate) fn read_all(file: &dyn File, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !buffer.is_empty() {
        match file.read_at(buffer, offset) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                buffer = &mut buffer[count..];
                offset += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The file system of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsFiles;

impl Files for OsFiles {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        if dir.is_dir() {
            return Ok(());
        }
        let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        self.create_dir(parent)?;
        match fs::create_dir(dir) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => self.sync_dir(parent),
        }
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(dir)? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        Ok(names)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn File>> {
        let file = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)?;
        Ok(Box::new(OsFile(file)))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn File>> {
        let file = fs::OpenOptions::new().read(true).write(true).open(path)?;
        Ok(Box::new(OsFile(file)))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        fs::File::open(dir)?.sync_all()
    }
}

/// The file system of the operating system, for read-only use.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadOnlyFiles;

impl ReadOnlyFiles {
    fn refuse<T>() -> io::Result<T> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
}

impl Files for ReadOnlyFiles {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        if dir.is_dir() { Ok(()) } else { Self::refuse() }
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        OsFiles.list(dir)
    }

    fn create(&self, _: &Path) -> io::Result<Box<dyn File>> {
        Self::refuse()
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn File>> {
        Ok(Box::new(OsFile(fs::File::open(path)?)))
    }

    fn remove(&self, _: &Path) -> io::Result<()> {
        Self::refuse()
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Self::refuse()
    }
}

struct OsFile(fs::File);

impl File for OsFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.0.write_at(bytes, offset)
    }

    fn truncate(&self, size: u64) -> io::Result<()> {
        self.0.set_len(size)
    }

    /// `fdatasync`: it leaves out times, but not a size that reading the data needs.
    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}
