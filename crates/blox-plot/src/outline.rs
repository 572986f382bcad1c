//! A tree as lines.

use crate::frame::{heading, heading_height};
use crate::svg::{Anchor, Page, fitted, width_of};

/// A tree, a line a node: children below their parent and further right, each
/// joined to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Outline {
    title: String,
    subtitle: String,
    lines: Vec<(usize, String)>,
}

const LINE: f64 = 21.0;
const STEP: f64 = 26.0;
const LEFT: f64 = 16.0;
const SIZE: f64 = 12.0;
/// Longer lines are cut.
const ROOM: f64 = 560.0;

impl Outline {
    /// Of nodes with their depths, from the root on, each before its children.
    pub fn new(title: impl Into<String>, lines: impl IntoIterator<Item = (usize, String)>) -> Self {
        Outline {
            title: title.into(),
            subtitle: String::new(),
            lines: lines.into_iter().collect(),
        }
    }

    /// Returns what the reader has to know, below the title.
    #[must_use]
    pub fn subtitle(mut self, text: impl Into<String>) -> Self {
        self.subtitle = text.into();
        self
    }

    /// The picture.
    pub fn svg(&self) -> String {
        let x = |depth: usize| LEFT + STEP * depth as f64;
        let ends = self
            .lines
            .iter()
            .map(|(depth, text)| x(*depth) + width_of(text, SIZE).min(ROOM));
        let width = ends.fold(300.0, f64::max) + 24.0;
        let top = heading_height(&self.subtitle, width) + 12.0;
        let y = |i: usize| top + LINE * i as f64;
        let mut page = Page::new(width, y(self.lines.len()) + 8.0, &self.title);
        heading(&mut page, &self.title, &self.subtitle, width);
        // The last line of each depth on the way to here: what a child joins.
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
                &fitted(text, SIZE, ROOM),
            );
        }
        page.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_stand_below_and_right_of_their_parent_and_are_joined() {
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
        assert_eq!(svg.matches("ink-line").count(), 4);
    }
}
