//! Whether the files and folders that a process keeps its data in are still in their places.
//!
//! An open file outlives its name: a process whose data folder was removed, or moved away and another one put in
//! its place, goes on writing into files that nobody will find again, and no call fails. So the identity (device
//! and inode) of each place is noted when it is opened and compared later: at intervals, and before data is
//! reported as safe. Once a place is lost it stays lost, even if the folder comes back: what was written
//! meanwhile may be elsewhere. Only a restart, which reads what is there, sees it again.

use std::fmt;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, RwLock};

/// The places that a process keeps its data in. Clones share them.
#[derive(Clone, Default)]
pub struct Ground(Arc<Inner>);

#[derive(Default)]
struct Inner {
    places: RwLock<Vec<Place>>,
    lost: OnceLock<Lost>,
    listeners: Mutex<Vec<Listener>>,
}

type Listener = Box<dyn FnOnce(&Lost) + Send>;

impl fmt::Debug for Ground {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = out.debug_struct("Ground");
        out.field("lost", &self.lost()).finish_non_exhaustive()
    }
}

/// A name and what it led to.
#[derive(Debug)]
struct Place {
    path: PathBuf,
    identity: (u64, u64),
}

/// Which place is lost, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    path: PathBuf,
    how: How,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Gone,
    Replaced,
}

impl fmt::Display for Lost {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = match self.how {
            How::Gone => "is gone",
            How::Replaced => "was replaced by another",
        };
        let path = self.path.display();
        write!(out, "{path} {how}; nothing more can be kept until a restart")
    }
}

impl std::error::Error for Lost {}

impl Ground {
    /// Watches a file or folder from now on, as it is now.
    pub fn watch(&self, path: &Path) -> io::Result<()> {
        let identity = identity(&path.metadata()?);
        let path = path.to_owned();
        self.0.places.write().push(Place { path, identity });
        Ok(())
    }

    /// Looks at every place. The first loss is logged and stays.
    ///
    /// Costs a few microseconds on a local disk. A place that cannot be looked at for another reason than that it
    /// is missing, such as a lack of memory, counts as being there.
    pub fn check(&self) -> Result<(), Lost> {
        if let Some(lost) = self.lost() {
            return Err(lost.clone());
        }
        match self.0.places.read().iter().find_map(Place::look) {
            None => Ok(()),
            Some(found) => {
                if self.0.lost.set(found.clone()).is_ok() {
                    tracing::error!(reason = %found, "the data folder is lost: writes are refused from now on");
                    let listeners = std::mem::take(&mut *self.0.listeners.lock());
                    listeners.into_iter().for_each(|tell| tell(&found));
                }
                Err(self.lost().cloned().unwrap_or(found))
            }
        }
    }

    /// Calls back when a loss is found, on the thread that finds it, or at once if one was found before.
    pub fn on_loss(&self, tell: impl FnOnce(&Lost) + Send + 'static) {
        self.0.listeners.lock().push(Box::new(tell));
        if let Some(lost) = self.lost() {
            // The check that found it may have passed on what it knew of already.
            let listeners = std::mem::take(&mut *self.0.listeners.lock());
            listeners.into_iter().for_each(|tell| tell(lost));
        }
    }

    /// Returns the loss that a check has found before.
    pub fn lost(&self) -> Option<&Lost> {
        self.0.lost.get()
    }
}

impl Place {
    fn look(&self) -> Option<Lost> {
        let how = match self.path.metadata() {
            Ok(metadata) if identity(&metadata) == self.identity => return None,
            Ok(_) => How::Replaced,
            Err(error) => match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => How::Gone,
                _ => return None,
            },
        };
        let path = self.path.clone();
        Some(Lost { path, how })
    }
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn watched() -> (tempfile::TempDir, PathBuf, Ground) {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("data");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("lock"), "").unwrap();
        let ground = Ground::default();
        ground.watch(&folder).unwrap();
        ground.watch(&folder.join("lock")).unwrap();
        ground.check().unwrap();
        (root, folder, ground)
    }

    #[test]
    fn a_removed_folder_is_lost_for_good() {
        let (_root, folder, ground) = watched();
        fs::remove_dir_all(&folder).unwrap();
        let lost = ground.check().unwrap_err();
        assert!(lost.to_string().contains("data is gone"), "{lost}");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("lock"), "").unwrap();
        assert_eq!(ground.check(), Err(lost));
    }

    #[test]
    fn another_folder_in_its_place_is_told_from_it_even_when_it_comes_back() {
        let (root, folder, ground) = watched();
        fs::rename(&folder, root.path().join("aside")).unwrap();
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("lock"), "").unwrap();
        let lost = ground.check().unwrap_err();
        assert!(lost.to_string().contains("was replaced by another"), "{lost}");
        fs::remove_dir_all(&folder).unwrap();
        fs::rename(root.path().join("aside"), &folder).unwrap();
        assert_eq!(ground.check(), Err(lost));
    }

    #[test]
    fn a_replaced_file_is_lost_and_a_changed_one_is_not() {
        let (_root, folder, ground) = watched();
        fs::write(folder.join("lock"), "other content").unwrap();
        ground.check().unwrap();
        fs::write(folder.join("new"), "").unwrap();
        fs::rename(folder.join("new"), folder.join("lock")).unwrap();
        let lost = ground.check().unwrap_err();
        assert!(lost.to_string().contains("lock was replaced"), "{lost}");
        assert_eq!(ground.lost(), Some(&lost));
    }

    #[test]
    fn everybody_is_told_once_before_or_after_the_loss() {
        let (_root, folder, ground) = watched();
        let (tell, told) = std::sync::mpsc::channel();
        let early = tell.clone();
        ground.on_loss(move |_| early.send("early").unwrap());
        ground.check().unwrap();
        fs::remove_dir_all(&folder).unwrap();
        ground.check().unwrap_err();
        ground.check().unwrap_err();
        ground.on_loss(move |lost| {
            assert!(lost.to_string().contains("is gone"));
            tell.send("late").unwrap();
        });
        assert_eq!(told.iter().collect::<Vec<_>>(), ["early", "late"]);
    }
}
