//! The loaded libraries and their functions.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use nagaya_command_spec::error::CommandError;
use nagaya_lua::{FunctionDef, LibraryId};

/// A library whose top level has run once.
pub struct Library {
    pub id: LibraryId,
    pub name: String,
    /// Its whole text, first line included.
    pub code: Vec<u8>,
    pub functions: Vec<FunctionDef>,
}

/// All libraries. Changed by making a new set.
#[derive(Clone, Default)]
pub struct Libraries {
    by_name: BTreeMap<String, Arc<Library>>,
    /// Functions by their name in lower case: which library, and where in its list.
    functions: HashMap<String, (Arc<Library>, usize), ahash::RandomState>,
}

/// What joining two sets does about libraries of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SameName {
    Refuse,
    Replace,
}

impl Libraries {
    /// Lists the libraries by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Library>> {
        self.by_name.values()
    }

    /// Returns how many libraries there are.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Returns how many functions there are in all libraries.
    pub fn function_count(&self) -> usize {
        self.iter().map(|library| library.functions.len()).sum()
    }

    pub fn contains(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// Finds a function, letter case ignored.
    pub fn function(&self, name: &[u8]) -> Option<(&Arc<Library>, &FunctionDef)> {
        let name = str::from_utf8(name).ok()?.to_ascii_lowercase();
        let (library, at) = self.functions.get(&name)?;
        Some((library, &library.functions[*at]))
    }

    /// Removes a library; false when there is none of this name.
    pub fn remove(&mut self, name: &str) -> bool {
        let Some(library) = self.by_name.remove(name) else {
            return false;
        };
        self.functions
            .retain(|_, (owner, _)| !Arc::ptr_eq(owner, &library));
        true
    }

    /// Adds libraries, all or none. Neither two libraries nor two functions have the same name.
    pub fn join(&self, more: &[Arc<Library>], same_name: SameName) -> Result<Libraries, CommandError> {
        let mut joined = self.clone();
        for library in more {
            if joined.contains(&library.name) {
                if same_name == SameName::Refuse {
                    return Err(exists("Library", &library.name));
                }
                joined.remove(&library.name);
            }
        }
        for function in more.iter().flat_map(|library| &library.functions) {
            if joined.function(function.name.as_bytes()).is_some() {
                return Err(exists("Function", &function.name));
            }
        }
        more.iter().for_each(|library| joined.add(library));
        Ok(joined)
    }

    /// Adds a library to those read so far from one payload, which must all differ.
    pub fn add_new(&mut self, library: &Arc<Library>) -> Result<(), CommandError> {
        if let Some(function) = library
            .functions
            .iter()
            .find(|function| self.function(function.name.as_bytes()).is_some())
        {
            return Err(exists("Function", &function.name));
        }
        self.add(library);
        Ok(())
    }

    fn add(&mut self, library: &Arc<Library>) {
        self.by_name.insert(library.name.clone(), Arc::clone(library));
        for (at, function) in library.functions.iter().enumerate() {
            let name = function.name.to_ascii_lowercase();
            self.functions.entry(name).or_insert((Arc::clone(library), at));
        }
    }
}

fn exists(what: &str, name: &str) -> CommandError {
    CommandError::err(format!("{what} {name} already exists"))
}
