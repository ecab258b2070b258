//! Tests of the generator, and of keys of small order.

mod generate;
mod small_order;
