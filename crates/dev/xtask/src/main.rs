//! Prints what the checks of this crate measure: `cargo run -p nagaya-xtask -- loops crates/room/exec`.

#![allow(
    clippy::print_stdout,
    reason = "a tool of the command line prints its findings"
)]

use nagaya_xtask::imports::Graph;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["loops", folder] => print_loops(folder),
        _ => {
            println!("usage: nagaya-xtask loops FOLDER    import loops between the files of a crate");
            std::process::exit(2);
        }
    }
}

fn print_loops(folder: &str) {
    let graph = Graph::of_crate(folder);
    for files in graph.loops() {
        println!("{} files", files.len());
        for file in &files {
            let inside: Vec<&str> = graph.arrows[file]
                .intersection(&files)
                .map(String::as_str)
                .collect();
            println!("  {file} -> {}", inside.join(" "));
        }
    }
    println!("{} files, {} loops", graph.arrows.len(), graph.loops().len());
}
