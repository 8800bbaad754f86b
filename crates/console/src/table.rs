//! Tables that become lists of cards on a phone.
//!
//! The roles are written out, because a browser forgets that a table is one when its rows are laid out as blocks.

use maud::{Markup, html};

/// A table with a name, columns and rows.
pub(crate) struct Table<'a> {
    /// Said by screen readers; shown only where no heading says the same.
    caption: &'a str,
    columns: Vec<Column<'a>>,
    rows: Vec<Vec<Markup>>,
    /// In place of rows when there are none.
    empty: &'a str,
}

struct Column<'a> {
    name: &'a str,
    is_number: bool,
}

impl<'a> Table<'a> {
    pub(crate) fn new(caption: &'a str, empty: &'a str) -> Table<'a> {
        Table {
            caption,
            columns: Vec::new(),
            rows: Vec::new(),
            empty,
        }
    }

    /// Adds a column of words.
    pub(crate) fn words(mut self, name: &'a str) -> Table<'a> {
        self.columns.push(Column {
            name,
            is_number: false,
        });
        self
    }

    /// Adds a column of numbers.
    pub(crate) fn numbers(mut self, name: &'a str) -> Table<'a> {
        self.columns.push(Column {
            name,
            is_number: true,
        });
        self
    }

    /// Adds a row; its first cell is what the row is about.
    pub(crate) fn row(&mut self, cells: Vec<Markup>) {
        debug_assert_eq!(cells.len(), self.columns.len(), "a cell for each column");
        self.rows.push(cells);
    }

    pub(crate) fn render(&self) -> Markup {
        if self.rows.is_empty() {
            return html! { p.nothing { (self.empty) } };
        }
        html! {
            table role="table" {
                caption { (self.caption) }
                thead role="rowgroup" {
                    tr role="row" {
                        @for column in &self.columns {
                            th role="columnheader" scope="col" class=[column.is_number.then_some("number")] {
                                (column.name)
                            }
                        }
                    }
                }
                tbody role="rowgroup" {
                    @for cells in &self.rows {
                        tr role="row" {
                            @for (at, (cell, column)) in cells.iter().zip(&self.columns).enumerate() {
                                @if at == 0 {
                                    th role="rowheader" scope="row" { (cell) }
                                } @else {
                                    td role="cell" data-name=(column.name) class=[column.is_number.then_some("number")] {
                                        // One box beside the column's name, whatever is in it; empty cells stay empty.
                                        @if !cell.0.is_empty() { span { (cell) } }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_escaped_and_know_their_column() {
        let mut table = Table::new("Queues", "none").words("Name").numbers("Depth");
        table.row(vec![html! { ("<b>") }, html! { (3) }]);
        let text = table.render().into_string();
        assert!(
            text.contains("&lt;b&gt;") && text.contains("data-name=\"Depth\""),
            "{text}"
        );
    }

    #[test]
    fn a_table_without_rows_says_so() {
        assert!(
            Table::new("Queues", "No queue yet")
                .render()
                .into_string()
                .contains("No queue yet")
        );
    }
}
