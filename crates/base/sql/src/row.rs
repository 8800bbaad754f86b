//! Rows with typed columns.

/// Declares the row that a statement returns: a struct, its column names and a function that reads it.
///
/// The first word names the driver. Columns are read by position in the order of the fields, so nothing is looked
/// up by name at run time; a test compares `COLUMNS` with the prepared statement
/// ([`assert_columns`](crate::assert_columns)). All fields are as visible as the struct.
///
/// | Driver | Made |
/// |---|---|
/// | `sqlite` | `fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self>` |
/// | `postgres` | `fn read(row: &nagaya_postgres_client::Row) -> Self` |
///
/// PostgreSQL fixes the types of a statement's columns when it is prepared, so a column that cannot be read is a
/// bug of the program and panics, as the driver's `Row::get` does. SQLite keeps any type in any column, so there
/// it is an error.
///
/// A field is one of these:
///
/// - `name: Type`, read as the driver reads that type;
/// - `name: Type = function`, where the function makes the field from what the driver read;
/// - `name: Type = function else "what is wrong"` (SQLite only), where the function returns `Option<Type>`. `None`
///   becomes a conversion error of that column with the given text.
///
/// `name as "column": ...` is for a column of another name, such as an expression without an alias. A driver names
/// those after their text (SQLite) or function (PostgreSQL); `name as _: ...` accepts any name.
///
/// ```
/// # mod numbers { pub fn floor(number: i64) -> Option<u8> { u8::try_from(number).ok().filter(|floor| *floor < 3) } }
/// #[derive(Debug, PartialEq)]
/// pub struct RoomId(i64);
///
/// nagaya_sql::row! {
///     sqlite;
///     /// A room and what is in it.
///     #[derive(Debug)]
///     pub struct RoomRow {
///         id: RoomId = RoomId,
///         floor: u8 = numbers::floor else "not a floor",
///         things as "count(*)": u32,
///     }
/// }
/// assert_eq!(RoomRow::COLUMNS, ["id", "floor", "count(*)"]);
/// # let connection = rusqlite::Connection::open_in_memory().unwrap();
/// # let read = |sql| connection.query_row(sql, [], RoomRow::read);
/// # let row = read("SELECT 7, 2, 40").unwrap();
/// # assert_eq!((row.id, row.floor, row.things), (RoomId(7), 2, 40));
/// # assert!(read("SELECT 7, 5, 40").unwrap_err().to_string().contains("index: 1, not a floor"));
/// ```
///
/// A `postgres` row may borrow from the driver's row: `struct TagRow<'r> { tag: &'r [u8] }`.
#[macro_export]
macro_rules! row {
    (
        sqlite;
        $(#[$meta:meta])*
        $vis:vis struct $name:ident {
            $(
                $(#[$field_meta:meta])*
                $field:ident $(as $column:tt)? : $type:ty
                    $(= $($convert:ident)::+ $(else $wrong:literal)?)?
            ),* $(,)?
        }
    ) => {
        $(#[$meta])*
        #[allow(dead_code, reason = "a row is declared whole, and not every use reads all of it")]
        $vis struct $name {
            $($(#[$field_meta])* $vis $field: $type,)*
        }

        $crate::row!(@columns $vis $name [] [$($field $(as $column)?),*]);

        #[allow(dead_code, reason = "a row is declared whole, and not every use reads all of it")]
        impl $name {
            /// Reads the row, column by column in the declared order.
            $vis fn read(row: &::rusqlite::Row<'_>) -> ::rusqlite::Result<$name> {
                #[allow(non_camel_case_types, reason = "the variants are the fields of the row")]
                enum Position { $($field),* }
                ::rusqlite::Result::Ok($name {
                    $($field: $crate::row!(
                        @sqlite row, Position::$field as usize $(, $($convert)::+ $(, $wrong)?)?
                    ),)*
                })
            }
        }
    };
    (
        postgres;
        $(#[$meta:meta])*
        $vis:vis struct $name:ident $(<$life:lifetime>)? {
            $(
                $(#[$field_meta:meta])*
                $field:ident $(as $column:tt)? : $type:ty $(= $($convert:ident)::+)?
            ),* $(,)?
        }
    ) => {
        $(#[$meta])*
        #[allow(dead_code, reason = "a row is declared whole, and not every use reads all of it")]
        $vis struct $name $(<$life>)? {
            $($(#[$field_meta])* $vis $field: $type,)*
        }

        $crate::row!(@columns $vis $name [$($life)?] [$($field $(as $column)?),*]);

        #[allow(dead_code, reason = "a row is declared whole, and not every use reads all of it")]
        impl $(<$life>)? $name $(<$life>)? {
            /// Reads the row, column by column in the declared order.
            $vis fn read(row: & $($life)? ::nagaya_postgres_client::Row) -> Self {
                #[allow(non_camel_case_types, reason = "the variants are the fields of the row")]
                enum Position { $($field),* }
                $name {
                    $($field: $crate::row!(@postgres row, Position::$field as usize $(, $($convert)::+)?),)*
                }
            }
        }
    };

    (@columns $vis:vis $name:ident [$($life:lifetime)?] [$($field:ident $(as $column:tt)?),*]) => {
        #[allow(dead_code, reason = "a row is declared whole, and not every use reads all of it")]
        impl $(<$life>)? $name $(<$life>)? {
            /// The columns that the statement must return, in order; `_` stands for any name.
            $vis const COLUMNS: &'static [&'static str] = &[$($crate::row!(@name $field $($column)?)),*];
        }
    };
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident _) => { "_" };
    (@name $field:ident $column:literal) => { $column };

    (@sqlite $row:ident, $at:expr) => { $row.get($at)? };
    (@sqlite $row:ident, $at:expr, $convert:path) => { $convert($row.get($at)?) };
    (@sqlite $row:ident, $at:expr, $convert:path, $wrong:literal) => {
        match $convert($row.get($at)?) {
            ::std::option::Option::Some(value) => value,
            ::std::option::Option::None => {
                return ::rusqlite::Result::Err(::rusqlite::Error::FromSqlConversionFailure(
                    $at,
                    ::rusqlite::types::Type::Null,
                    ::std::convert::Into::into($wrong),
                ));
            }
        }
    };
    (@postgres $row:ident, $at:expr) => { $row.get($at) };
    (@postgres $row:ident, $at:expr, $convert:path) => { $convert($row.get($at)) };
}

#[cfg(test)]
mod tests {
    use rusqlite::{Connection, Error};

    fn doubled(number: i64) -> i64 {
        number * 2
    }

    mod words {
        pub(super) fn even(number: i64) -> Option<i64> {
            (number % 2 == 0).then_some(number)
        }
    }

    row! {
        sqlite;
        #[derive(Debug, PartialEq)]
        pub(crate) struct Sample {
            /// Read as it is.
            plain: Option<String>,
            twice: i64 = doubled,
            even as "n + 1": i64 = words::even else "an odd number",
            any as _: bool,
        }
    }

    fn read(sql: &str) -> Result<Sample, Error> {
        let connection = Connection::open_in_memory().unwrap();
        connection.query_row(sql, [], Sample::read)
    }

    #[test]
    fn fields_are_read_in_the_declared_order() {
        let expected = Sample {
            plain: Some("a".to_owned()),
            twice: 10,
            even: 8,
            any: true,
        };
        assert_eq!(read("SELECT 'a', 5, 8, 1"), Ok(expected));
        assert_eq!(Sample::COLUMNS, ["plain", "twice", "n + 1", "_"]);
    }

    #[test]
    fn an_error_names_the_column() {
        let error = read("SELECT NULL, 5, 7, 1").unwrap_err();
        assert!(
            matches!(error, Error::FromSqlConversionFailure(2, _, _)),
            "{error}"
        );
        assert!(error.to_string().contains("an odd number"), "{error}");
        let error = read("SELECT NULL, 'five', 8, 1").unwrap_err();
        assert!(matches!(error, Error::InvalidColumnType(1, ..)), "{error}");
    }
}
