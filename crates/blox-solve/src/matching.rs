//! Matchings of greatest weight in general graphs.

use std::collections::VecDeque;

/// Returns a matching of greatest total weight in a graph of `n` vertices: the partner of each
/// vertex, or `None` if it has none. `weight` returns the weight of an edge between two vertices,
/// the smaller first; an edge of 0 or less does not exist.
///
/// Edmonds' blossom algorithm with dual variables, in time O(n³). Weights are whole numbers of at
/// most 2⁶⁰, so the result is exact and the same on every machine.
///
/// ```
/// use blox_solve::heaviest_matching;
/// // A path of three edges: the two outer ones are heavier together.
/// let weight = |a: usize, b: usize| [[0, 4, 0, 0], [0, 0, 6, 0], [0, 0, 0, 4]][a][b];
/// assert_eq!(heaviest_matching(4, weight), [Some(1), Some(0), Some(3), Some(2)]);
/// ```
pub fn heaviest_matching(n: usize, weight: impl Fn(usize, usize) -> i64) -> Vec<Option<usize>> {
    let mut graph = Graph::new(n);
    let mut most = 0;
    for a in 0..n {
        for b in a + 1..n {
            let w = weight(a, b).clamp(0, 1 << 60);
            graph.edges[a + 1][b + 1].weight = w;
            graph.edges[b + 1][a + 1].weight = w;
            most = most.max(w);
        }
    }
    graph.dual[1..=n].fill(most);
    while graph.augments() {}
    let partner = |v: usize| graph.mate[v].checked_sub(1);
    (1..=n).map(partner).collect()
}

/// An edge between two vertices.
#[derive(Clone, Copy)]
struct Edge {
    from: usize,
    to: usize,
    weight: i64,
}

/// Label of a vertex or blossom in the search forest.
#[derive(Clone, Copy, PartialEq)]
enum Label {
    Free,
    /// At even distance from a root.
    Outer,
    /// At odd distance from a root.
    Inner,
}

/// Vertices have the numbers from 1, then follow blossoms. 0 is none.
struct Graph {
    vertices: usize,
    /// Number of vertices and blossoms in use.
    used: usize,
    /// The best edge between two vertices or blossoms.
    edges: Vec<Vec<Edge>>,
    dual: Vec<i64>,
    /// The vertex at the other end of the matched edge.
    mate: Vec<usize>,
    /// The vertex with the edge of least slack to an element.
    near: Vec<usize>,
    /// The outermost blossom around an element; 0 for an unused blossom.
    top: Vec<usize>,
    /// The vertex before an element in the search forest.
    before: Vec<usize>,
    /// The part of a blossom that has a vertex.
    part_with: Vec<Vec<usize>>,
    /// The parts of a blossom around its odd cycle, from its base on.
    parts: Vec<Vec<usize>>,
    label: Vec<Label>,
    seen: Vec<usize>,
    search: usize,
    queue: VecDeque<usize>,
}

impl Graph {
    fn new(n: usize) -> Self {
        let size = 2 * n + 2;
        let edge = |from, to| Edge {
            from,
            to,
            weight: 0,
        };
        let mut part_with = vec![vec![0; n + 1]; size];
        (1..=n).for_each(|v| part_with[v][v] = v);
        let mut top = vec![0; size];
        (1..=n).for_each(|v| top[v] = v);
        Graph {
            vertices: n,
            used: n,
            edges: (0..size)
                .map(|a| (0..size).map(|b| edge(a, b)).collect())
                .collect(),
            dual: vec![0; size],
            mate: vec![0; size],
            near: vec![0; size],
            top,
            before: vec![0; size],
            part_with,
            parts: vec![Vec::new(); size],
            label: vec![Label::Free; size],
            seen: vec![0; size],
            search: 0,
            queue: VecDeque::new(),
        }
    }

    /// Twice the slack of an edge in the dual program.
    fn slack(&self, e: Edge) -> i64 {
        self.dual[e.from] + self.dual[e.to] - 2 * self.edges[e.from][e.to].weight
    }

    fn bring_near(&mut self, vertex: usize, x: usize) {
        let old = self.near[x];
        if old == 0 || self.slack(self.edges[vertex][x]) < self.slack(self.edges[old][x]) {
            self.near[x] = vertex;
        }
    }

    fn find_near(&mut self, x: usize) {
        self.near[x] = 0;
        for vertex in 1..=self.vertices {
            let top = self.top[vertex];
            if self.edges[vertex][x].weight > 0 && top != x && self.label[top] == Label::Outer {
                self.bring_near(vertex, x);
            }
        }
    }

    /// Appends the vertices of an element to the queue.
    fn enqueue(&mut self, x: usize) {
        if x <= self.vertices {
            self.queue.push_back(x);
            return;
        }
        for i in 0..self.parts[x].len() {
            self.enqueue(self.parts[x][i]);
        }
    }

    fn set_top(&mut self, x: usize, top: usize) {
        self.top[x] = top;
        if x > self.vertices {
            for i in 0..self.parts[x].len() {
                self.set_top(self.parts[x][i], top);
            }
        }
    }

    /// Returns the even distance of a part from the base. Turns the cycle around if it is odd.
    fn distance(&mut self, blossom: usize, part: usize) -> usize {
        let parts = &mut self.parts[blossom];
        let at = parts.iter().position(|p| *p == part).unwrap_or(0);
        if at % 2 == 0 {
            return at;
        }
        parts[1..].reverse();
        parts.len() - at
    }

    /// Matches an element over its best edge to another.
    fn marry(&mut self, x: usize, y: usize) {
        let edge = self.edges[x][y];
        self.mate[x] = edge.to;
        if x <= self.vertices {
            return;
        }
        let base = self.part_with[x][edge.from];
        let distance = self.distance(x, base);
        for i in 0..distance {
            self.marry(self.parts[x][i], self.parts[x][i ^ 1]);
        }
        self.marry(base, y);
        self.parts[x].rotate_left(distance);
    }

    /// Exchanges matched and other edges on the way from an element to its root.
    fn augment(&mut self, mut x: usize, mut y: usize) {
        loop {
            let next = self.top[self.mate[x]];
            self.marry(x, y);
            if next == 0 {
                return;
            }
            let before = self.top[self.before[next]];
            self.marry(next, before);
            (x, y) = (before, next);
        }
    }

    /// Returns the first common element on the ways to the roots; 0 if the roots differ.
    fn meeting(&mut self, mut x: usize, mut y: usize) -> usize {
        self.search += 1;
        while x != 0 || y != 0 {
            if x != 0 {
                if self.seen[x] == self.search {
                    return x;
                }
                self.seen[x] = self.search;
                x = self.top[self.mate[x]];
                if x != 0 {
                    x = self.top[self.before[x]];
                }
            }
            std::mem::swap(&mut x, &mut y);
        }
        0
    }

    /// Appends the elements on the way from `x` to `base` to the parts of a blossom.
    fn collect(&mut self, blossom: usize, mut x: usize, base: usize) {
        while x != base {
            let y = self.top[self.mate[x]];
            self.parts[blossom].extend([x, y]);
            self.enqueue(y);
            x = self.top[self.before[y]];
        }
    }

    fn shrink(&mut self, x: usize, base: usize, y: usize) {
        let mut b = self.vertices + 1;
        while b <= self.used && self.top[b] != 0 {
            b += 1;
        }
        self.used = self.used.max(b);
        (self.dual[b], self.label[b], self.mate[b]) = (0, Label::Outer, self.mate[base]);
        self.parts[b] = vec![base];
        self.collect(b, x, base);
        self.parts[b][1..].reverse();
        self.collect(b, y, base);
        self.set_top(b, b);
        for other in 1..=self.used {
            self.edges[b][other].weight = 0;
            self.edges[other][b].weight = 0;
        }
        self.part_with[b].fill(0);
        for part in self.parts[b].clone() {
            for other in 1..=self.used {
                let (old, new) = (self.edges[b][other], self.edges[part][other]);
                if old.weight == 0 || self.slack(new) < self.slack(old) {
                    self.edges[b][other] = new;
                    self.edges[other][b] = self.edges[other][part];
                }
            }
            for vertex in 1..=self.vertices {
                if self.part_with[part][vertex] != 0 {
                    self.part_with[b][vertex] = part;
                }
            }
        }
        self.find_near(b);
    }

    fn expand(&mut self, b: usize) {
        let parts = self.parts[b].clone();
        for part in parts {
            self.set_top(part, part);
        }
        let entry = self.part_with[b][self.edges[b][self.before[b]].from];
        let distance = self.distance(b, entry);
        for i in (0..distance).step_by(2) {
            let (inner, outer) = (self.parts[b][i], self.parts[b][i + 1]);
            self.before[inner] = self.edges[outer][inner].from;
            (self.label[inner], self.label[outer]) = (Label::Inner, Label::Outer);
            self.near[inner] = 0;
            self.find_near(outer);
            self.enqueue(outer);
        }
        (self.label[entry], self.before[entry]) = (Label::Inner, self.before[b]);
        for i in distance + 1..self.parts[b].len() {
            let part = self.parts[b][i];
            self.label[part] = Label::Free;
            self.find_near(part);
        }
        self.top[b] = 0;
    }

    /// Follows an edge without slack. Returns true if it completes an augmenting path.
    fn follow(&mut self, e: Edge) -> bool {
        let (x, y) = (self.top[e.from], self.top[e.to]);
        match self.label[y] {
            Label::Free => {
                (self.before[y], self.label[y]) = (e.from, Label::Inner);
                let mate = self.top[self.mate[y]];
                (self.near[y], self.near[mate]) = (0, 0);
                self.label[mate] = Label::Outer;
                self.enqueue(mate);
            }
            Label::Outer => {
                let base = self.meeting(x, y);
                if base == 0 {
                    self.augment(x, y);
                    self.augment(y, x);
                    return true;
                }
                self.shrink(x, base, y);
            }
            Label::Inner => {}
        }
        false
    }

    /// Adds an edge to the matching if that makes it heavier.
    fn augments(&mut self) -> bool {
        self.label[1..=self.used].fill(Label::Free);
        self.near[1..=self.used].fill(0);
        self.queue.clear();
        for x in 1..=self.used {
            if self.top[x] == x && self.mate[x] == 0 {
                (self.before[x], self.label[x]) = (0, Label::Outer);
                self.enqueue(x);
            }
        }
        if self.queue.is_empty() {
            return false;
        }
        loop {
            while let Some(vertex) = self.queue.pop_front() {
                if self.label[self.top[vertex]] == Label::Inner {
                    continue;
                }
                for other in 1..=self.vertices {
                    let edge = self.edges[vertex][other];
                    if edge.weight == 0 || self.top[vertex] == self.top[other] {
                        continue;
                    }
                    if self.slack(edge) > 0 {
                        self.bring_near(vertex, self.top[other]);
                    } else if self.follow(edge) {
                        return true;
                    }
                }
            }
            if !self.change_duals() {
                return false;
            }
            for x in 1..=self.used {
                let near = self.near[x];
                if self.top[x] == x
                    && near != 0
                    && self.top[near] != x
                    && self.slack(self.edges[near][x]) == 0
                    && self.follow(self.edges[near][x])
                {
                    return true;
                }
            }
            for b in self.vertices + 1..=self.used {
                if self.top[b] == b && self.label[b] == Label::Inner && self.dual[b] == 0 {
                    self.expand(b);
                }
            }
        }
    }

    /// Changes the dual variables until another edge has no slack. Returns false if no edge would
    /// make the matching heavier.
    fn change_duals(&mut self) -> bool {
        let mut step = i64::MAX;
        for x in 1..=self.used {
            if self.top[x] != x {
                continue;
            }
            if x > self.vertices && self.label[x] == Label::Inner {
                step = step.min(self.dual[x] / 2);
            }
            let slack = match self.near[x] {
                0 => continue,
                near => self.slack(self.edges[near][x]),
            };
            match self.label[x] {
                Label::Free => step = step.min(slack),
                Label::Outer => step = step.min(slack / 2),
                Label::Inner => {}
            }
        }
        let is_last = |v: usize| self.label[self.top[v]] == Label::Outer && self.dual[v] <= step;
        if (1..=self.vertices).any(is_last) {
            return false;
        }
        for v in 1..=self.vertices {
            match self.label[self.top[v]] {
                Label::Outer => self.dual[v] -= step,
                Label::Inner => self.dual[v] += step,
                Label::Free => {}
            }
        }
        for b in self.vertices + 1..=self.used {
            if self.top[b] == b {
                match self.label[b] {
                    Label::Outer => self.dual[b] += 2 * step,
                    Label::Inner => self.dual[b] -= 2 * step,
                    Label::Free => {}
                }
            }
        }
        self.queue.clear();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The greatest weight of a matching of the vertices from `first` on that are not taken.
    fn best(weights: &[Vec<i64>], taken: &mut Vec<bool>, first: usize) -> i64 {
        let n = weights.len();
        let Some(a) = (first..n).find(|v| !taken[*v]) else {
            return 0;
        };
        let mut most = best(weights, taken, a + 1);
        for b in a + 1..n {
            if !taken[b] && weights[a][b] > 0 {
                taken[b] = true;
                most = most.max(weights[a][b] + best(weights, taken, a + 1));
                taken[b] = false;
            }
        }
        most
    }

    #[test]
    fn heaviest_matching_equals_the_best_on_random_graphs() {
        let mut state = 7u64;
        let mut below = |n: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
            (state >> 33) % n
        };
        for case in 0..3000 {
            let n = below(10) as usize;
            let (density, most) = (1 + below(10), [1, 3, 40, 1_000_000][case % 4]);
            let mut weights = vec![vec![0; n]; n];
            for (a, row) in weights.iter_mut().enumerate() {
                for weight in &mut row[a + 1..] {
                    if below(10) < density {
                        *weight = below(most + 1) as i64;
                    }
                }
            }
            let found = heaviest_matching(n, |a, b| weights[a][b]);
            let mut total = 0;
            for (a, b) in found.iter().enumerate() {
                let Some(b) = *b else { continue };
                assert_eq!(found[b], Some(a), "{weights:?}");
                total += weights[a.min(b)][a.max(b)];
            }
            let expected = best(&weights, &mut vec![false; n], 0);
            assert_eq!(total, 2 * expected, "{weights:?}");
        }
    }

    #[test]
    fn heaviest_matching_takes_no_missing_edge() {
        assert_eq!(heaviest_matching(0, |_, _| 1), []);
        assert_eq!(heaviest_matching(2, |_, _| -3), [None, None]);
        let star = |a: usize, b: usize| if a == 0 { b as i64 } else { 0 };
        assert_eq!(heaviest_matching(4, star), [Some(3), None, None, Some(0)]);
    }
}
