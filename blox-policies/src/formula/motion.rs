//! Changes of a formula's value with time.

use super::column::Column;
use super::course::Course::{self, Any, Clock, Still};
use super::expr::{Condition, Expr, Function, Operator, Read};

/// Returns the course of an expression, given the courses of columns.
pub(super) fn course(expr: &Expr, of: &impl Fn(Column) -> Course) -> Course {
    match expr {
        Expr::Number(..) | Expr::Attribute(_) => Still,
        Expr::Column(column) => of(*column),
        Expr::Negative(inner) => course(inner, of).negative(),
        Expr::Binary(operator, sides) => {
            let [a, b] = [&sides[0], &sides[1]].map(|side| course(side, of));
            match operator {
                Operator::Add => a.and(b),
                Operator::Subtract => a.and(b.negative()),
                Operator::Multiply if a == Still => scaled(b, &sides[0]),
                Operator::Multiply | Operator::Divide if b == Still => scaled(a, &sides[1]),
                _ => a.and(b).vague(),
            }
        }
        Expr::Where(choice) => {
            let [a, b] = [&choice.values[0], &choice.values[1]].map(|value| course(value, of));
            match moves(&choice.condition, of) {
                false => a.rough().and(b.rough()),
                true => Any,
            }
        }
        Expr::Call(function, arguments) => {
            let courses = arguments
                .iter()
                .map(|argument| course(argument, of).rough());
            let all = courses.fold(Still, Course::and);
            match function {
                Function::Abs => all.vague(),
                Function::Min | Function::Max | Function::Log => all,
            }
        }
    }
}

/// Returns the course of the product with a factor, or the quotient by it, that does not move.
fn scaled(course: Course, by: &Expr) -> Course {
    match (course, is_amount(by)) {
        (Still, _) => Still,
        (course, true) => course.rough(),
        (_, false) => Any,
    }
}

/// Returns whether the value is never below 0.
fn is_amount(expr: &Expr) -> bool {
    match expr {
        Expr::Number(number, _) => *number >= 0.0,
        Expr::Column(column) => column.is_amount(),
        Expr::Attribute(_) | Expr::Negative(_) => false,
        Expr::Binary(Operator::Subtract, _) => false,
        Expr::Binary(_, sides) => sides.iter().all(is_amount),
        Expr::Where(choice) => choice.values.iter().all(is_amount),
        Expr::Call(Function::Log, _) => false,
        Expr::Call(Function::Abs, _) => true,
        Expr::Call(_, arguments) => arguments.iter().all(is_amount),
    }
}

/// Returns whether a condition may change with time.
fn moves(condition: &Condition, of: &impl Fn(Column) -> Course) -> bool {
    let mut moves = false;
    condition.each_column(&mut |read| {
        moves |= matches!(read, Read::Number(column) if of(column) != Still);
    });
    moves
}

/// Returns the change of an expression each second while a job waits. Returns `None` if the change is
/// not the same at all times.
pub(super) fn rate(expr: &Expr) -> Option<Expr> {
    if course(expr, &Column::waiting) == Still {
        return Some(Expr::ZERO);
    }
    match expr {
        Expr::Number(..) | Expr::Attribute(_) => Some(Expr::ZERO),
        Expr::Column(column) => (column.waiting() == Clock).then_some(Expr::ONE),
        Expr::Negative(inner) => Some(Expr::Negative(Box::new(rate(inner)?))),
        Expr::Binary(operator, sides) => {
            let [a, b] = &**sides;
            let of = |a, b| Some(Expr::Binary(*operator, Box::new([a, b])));
            match operator {
                Operator::Add | Operator::Subtract => of(rate(a)?, rate(b)?),
                Operator::Multiply if is_still(a) => of(a.clone(), rate(b)?),
                Operator::Multiply | Operator::Divide if is_still(b) => of(rate(a)?, b.clone()),
                _ => None,
            }
        }
        Expr::Where(choice) if !moves(&choice.condition, &Column::waiting) => {
            let [yes, no] = &choice.values;
            let mut of_each = choice.clone();
            of_each.values = [rate(yes)?, rate(no)?];
            Some(Expr::Where(of_each))
        }
        Expr::Where(_) | Expr::Call(..) => None,
    }
}

fn is_still(expr: &Expr) -> bool {
    course(expr, &Column::waiting) == Still
}
