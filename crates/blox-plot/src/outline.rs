//! A tree as lines.

use crate::frame::Heading;
use crate::style::{MEDIUM as SIZE, WIDTH};
use crate::svg::{Anchor, Page, fitted, width_of};

/// A tree with a line for each node. A line joins each child to its parent, which stands above
/// and to the left.
#[derive(Clone, Debug, PartialEq)]
pub struct Outline {
    title: String,
    lines: Vec<(usize, String)>,
}

const LINE: f64 = 19.0;
/// Width of an indentation.
const STEP: f64 = 18.0;
const LEFT: f64 = 8.0;
/// Each line has at least this room, also far to the right. Longer lines are cut.
const ROOM: f64 = 180.0;

impl Outline {
    /// Takes `(depth, text)` of each node, the root first, and each node before its children.
    pub fn new(title: impl Into<String>, lines: impl IntoIterator<Item = (usize, String)>) -> Self {
        Outline {
            title: title.into(),
            lines: lines.into_iter().collect(),
        }
    }

    /// Returns the picture.
    pub fn svg(&self) -> String {
        let x = |depth: usize| LEFT + STEP * depth as f64;
        let room = |depth: usize| (WIDTH - LEFT - x(depth)).max(ROOM);
        let ends = self
            .lines
            .iter()
            .map(|(depth, text)| x(*depth) + width_of(text, SIZE).min(room(*depth)));
        let width = ends.fold(WIDTH - LEFT, f64::max) + LEFT;
        let heading = Heading::of(&self.title, "", width);
        let top = heading.height() + 12.0;
        let y = |i: usize| top + LINE * i as f64;
        let mut page = Page::new(width, y(self.lines.len()) + 8.0, &self.title);
        heading.draw(&mut page);
        // The ancestors of this line, by depth.
        let mut above: Vec<usize> = Vec::new();
        for (i, (depth, text)) in self.lines.iter().enumerate() {
            above.truncate(*depth);
            if let Some(&parent) = above.last() {
                let (from, to) = (x(*depth - 1) + 6.0, x(*depth) - 4.0);
                page.axis_line(from, y(parent) + 5.0, from, y(i) - 4.0);
                page.axis_line(from, y(i) - 4.0, to, y(i) - 4.0);
            }
            above.resize(*depth, i);
            above.push(i);
            page.text(
                x(*depth),
                y(i),
                Anchor::Start,
                SIZE,
                &fitted(text, SIZE, room(*depth)),
            );
        }
        page.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_are_below_and_right_of_their_parent() {
        let lines = [
            (0, "gpus <= 4"),
            (1, "class 0"),
            (0, "gpus > 4"),
            (1, "a & b"),
        ];
        let svg = Outline::new("Tree", lines.map(|(d, t)| (d, t.to_owned()))).svg();
        let at = |text: &str| {
            let line = svg.lines().find(|l| l.contains(text)).unwrap();
            let number = |name: &str| -> f64 {
                let from = line.find(name).unwrap() + name.len();
                let rest = &line[from..];
                rest[..rest.find('"').unwrap()].parse().unwrap()
            };
            (number(" x=\""), number(" y=\""))
        };
        let (root, leaf) = (at("gpus &lt;= 4"), at("class 0"));
        assert_eq!((leaf.0 - root.0, leaf.1 - root.1), (STEP, LINE));
        assert_eq!(at("gpus &gt; 4").0, root.0);
        assert!(svg.contains("a &amp; b"));
        assert_eq!(svg.matches("class=\"ink-line\"").count(), 4);
    }
}
