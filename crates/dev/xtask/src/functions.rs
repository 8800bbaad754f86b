//! The length of functions.

use crate::source;
use std::path::Path;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// A function with the number of lines from its signature to its closing brace.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Function {
    pub file: String,
    pub name: String,
    pub lines: usize,
}

/// Returns the functions of a file that have more lines than `max`. Test code is left out.
pub fn longer_than(path: &Path, max: usize) -> Vec<Function> {
    let mut collector = Collector {
        file: path.to_string_lossy().into_owned(),
        max,
        found: Vec::new(),
    };
    collector.visit_file(&source::parse(path));
    collector.found
}

struct Collector {
    file: String,
    max: usize,
    found: Vec<Function>,
}

impl Collector {
    fn measure(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let lines = block.span().end().line + 1 - signature.span().start().line;
        if lines > self.max {
            self.found.push(Function {
                file: self.file.clone(),
                name: signature.ident.to_string(),
                lines,
            });
        }
    }
}

impl<'ast> Visit<'ast> for Collector {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !source::is_test_only(&item.attrs) {
            self.measure(&item.sig, &item.block);
            visit::visit_item_fn(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.measure(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !source::is_test_only(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }
}
