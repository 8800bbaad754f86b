//! Files of the log that report no data as safe once the folder they are in is lost.

use std::io;
use std::path::Path;
use std::sync::Arc;

use nagaya_process::Ground;
use nagaya_wal::{File, Files};

/// A file system whose syncs fail when the ground is lost.
pub(super) struct GroundedFiles {
    pub(super) files: Arc<dyn Files>,
    pub(super) ground: Ground,
}

struct GroundedFile {
    file: Box<dyn File>,
    ground: Ground,
}

fn check(ground: &Ground) -> io::Result<()> {
    ground.check().map_err(io::Error::other)
}

impl GroundedFiles {
    fn grounded(&self, file: Box<dyn File>) -> Box<dyn File> {
        let ground = self.ground.clone();
        Box::new(GroundedFile { file, ground })
    }
}

impl Files for GroundedFiles {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        check(&self.ground)?;
        self.files.create_dir(dir)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.files.list(dir)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn File>> {
        check(&self.ground)?;
        self.files.create(path).map(|file| self.grounded(file))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn File>> {
        self.files.open(path).map(|file| self.grounded(file))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        check(&self.ground)?;
        self.files.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.files.sync_dir(dir)
    }
}

impl File for GroundedFile {
    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.file.write_at(bytes, offset)
    }

    fn truncate(&self, size: u64) -> io::Result<()> {
        self.file.truncate(size)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()?;
        // Afterwards: what the disk has confirmed is of use only if the name still leads to it.
        check(&self.ground)
    }
}
