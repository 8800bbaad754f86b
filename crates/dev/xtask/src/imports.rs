//! Which file of a crate uses which, and where those arrows form loops.
//!
//! An arrow goes from the file that names an item to the file that defines it; re-exports are
//! followed and are no arrows themselves. Test code is left out. Paths inside macro calls are not
//! seen.

use crate::source;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use syn::visit::{self, Visit};

type ModulePath = Vec<String>;

/// Arrows between the files of a crate. Files are named relative to `src`.
#[derive(Debug, Default)]
pub struct Graph {
    pub arrows: BTreeMap<String, BTreeSet<String>>,
}

#[derive(Default)]
struct Module {
    file: String,
    children: BTreeSet<String>,
    /// Names that the module re-exports, with the absolute path they stand for.
    exports: BTreeMap<String, ModulePath>,
    /// Modules whose items are all re-exported.
    globs: Vec<ModulePath>,
    /// Absolute paths that the module uses itself.
    used: BTreeSet<ModulePath>,
    /// Names of the items it defines.
    items: BTreeSet<String>,
}

impl Graph {
    /// Reads the arrows of the crate in a folder of the repository.
    pub fn of_crate(folder: &str) -> Graph {
        let modules = modules(folder);
        let mut graph = Graph::default();
        for (path, module) in &modules {
            let arrows = graph.arrows.entry(module.file.clone()).or_default();
            for used in &module.used {
                let Some(target) = resolve(&modules, used, 0) else {
                    continue;
                };
                if *target != module.file && !path.is_empty() {
                    arrows.insert(target.clone());
                }
            }
        }
        graph
    }

    /// The same graph with each file replaced by its folder below `src`, files directly in `src`
    /// by their own name.
    pub fn of_folders(&self) -> Graph {
        let folder = |file: &str| {
            file.split('/')
                .next()
                .unwrap_or(file)
                .trim_end_matches(".rs")
                .to_owned()
        };
        let mut graph = Graph::default();
        for (from, targets) in &self.arrows {
            let from = folder(from);
            let arrows = graph.arrows.entry(from.clone()).or_default();
            arrows.extend(
                targets
                    .iter()
                    .map(|target| folder(target))
                    .filter(|to| *to != from),
            );
        }
        graph
    }

    /// Returns the sets of files that reach each other, largest first.
    pub fn loops(&self) -> Vec<BTreeSet<String>> {
        let mut search = Tarjan::default();
        for file in self.arrows.keys() {
            search.enter(self, file);
        }
        let mut loops = search.found;
        loops.sort_by_key(|files| std::cmp::Reverse(files.len()));
        loops
    }
}

/// Tarjan's search for strongly connected components.
#[derive(Default)]
struct Tarjan {
    numbers: BTreeMap<String, usize>,
    lowest: BTreeMap<String, usize>,
    stack: Vec<String>,
    found: Vec<BTreeSet<String>>,
}

impl Tarjan {
    fn enter(&mut self, graph: &Graph, file: &str) {
        if self.numbers.contains_key(file) {
            return;
        }
        let number = self.numbers.len();
        self.numbers.insert(file.to_owned(), number);
        self.stack.push(file.to_owned());
        let mut lowest = number;
        for target in graph.arrows.get(file).into_iter().flatten() {
            self.enter(graph, target);
            // A target that is not on the stack any more belongs to a finished component.
            if self.stack.contains(target) {
                lowest = lowest.min(self.lowest.get(target).copied().unwrap_or(self.numbers[target]));
            }
        }
        self.lowest.insert(file.to_owned(), lowest);
        if lowest == number {
            let from = self
                .stack
                .iter()
                .position(|open| open == file)
                .expect("it is still open");
            let files: BTreeSet<String> = self.stack.drain(from..).collect();
            if files.len() > 1 {
                self.found.push(files);
            }
        }
    }
}

fn modules(folder: &str) -> BTreeMap<ModulePath, Module> {
    let src = source::root().join(folder).join("src");
    let mut parsed = BTreeMap::new();
    let mut test_only = BTreeSet::new();
    for path in source::files(&src, "rs") {
        let file = path
            .strip_prefix(&src)
            .expect("it was found in src")
            .to_string_lossy()
            .into_owned();
        let module = module_path(&file);
        let syntax = source::parse(&path);
        for item in &syntax.items {
            if let syn::Item::Mod(item) = item
                && source::is_test_only(&item.attrs)
            {
                let mut child = module.clone();
                child.push(item.ident.to_string());
                test_only.insert(child);
            }
        }
        parsed.insert(module, (file, syntax));
    }
    parsed.retain(|path, _| !(0..=path.len()).any(|length| test_only.contains(&path[..length])));
    let paths: BTreeSet<ModulePath> = parsed.keys().cloned().collect();
    parsed
        .into_iter()
        .map(|(path, (file, syntax))| {
            let children = paths
                .iter()
                .filter(|other| other.len() == path.len() + 1 && other.starts_with(&path))
                .map(|other| other[path.len()].clone())
                .collect();
            let mut collector = Collector {
                here: path.clone(),
                module: Module {
                    file,
                    children,
                    ..Module::default()
                },
            };
            collector.visit_file(&syntax);
            (path, collector.module)
        })
        .collect()
}

fn module_path(file: &str) -> ModulePath {
    let mut path: ModulePath = Path::new(file)
        .with_extension("")
        .components()
        .map(|part| part.as_os_str().to_string_lossy().into_owned())
        .collect();
    if matches!(path.last().map(String::as_str), Some("mod" | "lib" | "main")) {
        path.pop();
    }
    path
}

/// Returns the file that defines what an absolute path names.
fn resolve<'m>(
    modules: &'m BTreeMap<ModulePath, Module>,
    path: &[String],
    depth: usize,
) -> Option<&'m String> {
    if depth > 8 {
        return None;
    }
    let length = (0..=path.len())
        .rev()
        .find(|&length| modules.contains_key(&path[..length]))?;
    let module = &modules[&path[..length]];
    let Some(name) = path.get(length) else {
        return Some(&module.file);
    };
    if module.items.contains(name) {
        return Some(&module.file);
    }
    if let Some(target) = module.exports.get(name) {
        let target: ModulePath = target.iter().chain(&path[length + 1..]).cloned().collect();
        return resolve(modules, &target, depth + 1);
    }
    for glob in &module.globs {
        if modules
            .get(glob)
            .is_some_and(|module| module.items.contains(name) || module.exports.contains_key(name))
        {
            let target: ModulePath = glob.iter().chain(&path[length..]).cloned().collect();
            return resolve(modules, &target, depth + 1);
        }
    }
    Some(&module.file)
}

struct Collector {
    here: ModulePath,
    module: Module,
}

impl Collector {
    /// Turns a path as written into one from the crate's root; `None` for other crates' items.
    fn absolute(&self, segments: &[String]) -> Option<ModulePath> {
        let mut base = self.here.clone();
        let mut rest = segments;
        match segments.first()?.as_str() {
            "crate" => {
                base.clear();
                rest = &segments[1..];
            }
            "self" => rest = &segments[1..],
            "super" => {
                while rest.first().is_some_and(|segment| segment == "super") {
                    base.pop();
                    rest = &rest[1..];
                }
            }
            child if self.module.children.contains(child) => (),
            _ => return None,
        }
        base.extend(rest.iter().cloned());
        Some(base)
    }

    fn collect_use(&mut self, tree: &syn::UseTree, prefix: &mut ModulePath, public: bool) {
        match tree {
            syn::UseTree::Path(path) => {
                prefix.push(path.ident.to_string());
                self.collect_use(&path.tree, prefix, public);
                prefix.pop();
            }
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.collect_use(tree, prefix, public);
                }
            }
            syn::UseTree::Name(name) => self.add_use(&name.ident.to_string(), None, prefix, public),
            syn::UseTree::Rename(name) => {
                self.add_use(
                    &name.ident.to_string(),
                    Some(name.rename.to_string()),
                    prefix,
                    public,
                );
            }
            syn::UseTree::Glob(_) => {
                if let Some(path) = self.absolute(prefix) {
                    if public {
                        self.module.globs.push(path);
                    } else {
                        self.module.used.insert(path);
                    }
                }
            }
        }
    }

    fn add_use(&mut self, name: &str, renamed: Option<String>, prefix: &[String], public: bool) {
        let mut segments = prefix.to_vec();
        if name != "self" {
            segments.push(name.to_owned());
        }
        let Some(path) = self.absolute(&segments) else {
            return;
        };
        if public {
            let name = renamed.unwrap_or_else(|| segments.last().expect("a use names something").clone());
            self.module.exports.insert(name, path);
        } else {
            self.module.used.insert(path);
        }
    }
}

impl<'ast> Visit<'ast> for Collector {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if source::is_test_only(attributes(item)) {
            return;
        }
        if let Some(name) = name(item) {
            self.module.items.insert(name);
        }
        visit::visit_item(self, item);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        // A module inside of the file belongs to the file.
        visit::visit_item_mod(self, item);
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let public = !matches!(item.vis, syn::Visibility::Inherited);
        self.collect_use(&item.tree, &mut Vec::new(), public);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<String> = path
            .segments
            .iter()
            .map(|segment| segment.ident.to_string())
            .collect();
        if segments.len() > 1
            && let Some(path) = self.absolute(&segments)
        {
            self.module.used.insert(path);
        }
        visit::visit_path(self, path);
    }
}

fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        syn::Item::Type(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn name(item: &syn::Item) -> Option<String> {
    let ident = match item {
        syn::Item::Const(item) => &item.ident,
        syn::Item::Enum(item) => &item.ident,
        syn::Item::Fn(item) => &item.sig.ident,
        syn::Item::Static(item) => &item.ident,
        syn::Item::Struct(item) => &item.ident,
        syn::Item::Trait(item) => &item.ident,
        syn::Item::Type(item) => &item.ident,
        syn::Item::Macro(item) => item.ident.as_ref()?,
        _ => return None,
    };
    Some(ident.to_string())
}
