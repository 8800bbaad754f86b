//! Who is connected, as whom, and listening to what.
