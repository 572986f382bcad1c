//! The cone of the slacks: each at least 0, and triples whose first is at least the length
//! of the other two.

use super::parted::Parted;

/// Which slacks are alone, and which stand in triples.
pub(super) struct Cones {
    /// So many are alone; those after them stand in triples.
    pub single: usize,
    pub all: usize,
}

impl Cones {
    pub fn of(program: &Parted) -> Self {
        Cones {
            single: program.single,
            all: program.bound.len(),
        }
    }

    fn triples(&self) -> impl Iterator<Item = usize> + use<> {
        (self.single..self.all).step_by(3)
    }

    /// How many slacks and triples there are, copies counted.
    pub fn degree(&self, program: &Parted) -> f64 {
        let copies = &program.row_copies;
        let singles: f64 = copies[..self.single].iter().sum();
        singles + self.triples().map(|i| copies[i]).sum::<f64>()
    }

    /// A point inside the cone: the same one, or as much above it as it lies outside.
    pub fn brought_inside(&self, r: &[f64], step: f64) -> Vec<f64> {
        let mut most = -step;
        let singles = r[..self.single].iter().copied();
        let triples = self.triples().map(|i| r[i] - r[i + 1].hypot(r[i + 2]));
        for inside in singles.chain(triples) {
            if inside <= 0.0 {
                most = f64::max(most, -inside);
            }
        }
        let mut inside = r.to_vec();
        self.add_unit(&mut inside, 1.0 + most);
        inside
    }

    /// Adds a multiple of the cone's middle.
    pub fn add_unit(&self, to: &mut [f64], factor: f64) {
        to[..self.single].iter_mut().for_each(|t| *t += factor);
        self.triples().for_each(|i| to[i] += factor);
    }

    /// The product of Jordan's algebra.
    pub fn product(&self, u: &[f64], v: &[f64]) -> Vec<f64> {
        let mut out: Vec<f64> = u.iter().zip(v).map(|(u, v)| u * v).collect();
        for i in self.triples() {
            out[i] = u[i] * v[i] + u[i + 1] * v[i + 1] + u[i + 2] * v[i + 2];
            for k in [i + 1, i + 2] {
                out[k] = u[i] * v[k] + v[i] * u[k];
            }
        }
        out
    }

    /// What times `u` is `w`.
    pub fn quotient(&self, u: &[f64], w: &[f64]) -> Vec<f64> {
        let mut out: Vec<f64> = w.iter().zip(u).map(|(w, u)| w / u).collect();
        for i in self.triples() {
            let rest = u[i] * u[i] - u[i + 1] * u[i + 1] - u[i + 2] * u[i + 2];
            let along = u[i + 1] * w[i + 1] + u[i + 2] * w[i + 2];
            let factor = (along / u[i] - w[i]) / rest;
            out[i] = (u[i] * w[i] - along) / rest;
            for k in [i + 1, i + 2] {
                out[k] = factor * u[k] + w[k] / u[i];
            }
        }
        out
    }

    /// How far one can go from a point along each of two ways without leaving the cone.
    pub fn reach(&self, at: &[f64], one: &[f64], other: &[f64]) -> f64 {
        let mut fastest: f64 = 0.0;
        for i in 0..self.single {
            fastest = fastest.max(-one[i] / at[i]).max(-other[i] / at[i]);
        }
        for i in self.triples() {
            let inside = at[i] * at[i] - at[i + 1] * at[i + 1] - at[i + 2] * at[i + 2];
            if inside <= 0.0 {
                continue;
            }
            let length = inside.sqrt();
            let unit = [at[i] / length, at[i + 1] / length, at[i + 2] / length];
            for way in [one, other] {
                let along = unit[0] * way[i] - unit[1] * way[i + 1] - unit[2] * way[i + 2];
                let factor = (along + way[i]) / (unit[0] + 1.0);
                let [a, b] = [1, 2].map(|k| (way[i + k] - factor * unit[k]) / length);
                fastest = fastest.max(a.hypot(b) - along / length);
            }
        }
        if fastest > 0.0 {
            1.0 / fastest
        } else {
            f64::INFINITY
        }
    }
}

/// Nesterov's and Todd's scaling, which takes prices and slacks to the same point.
#[derive(Clone)]
pub(super) struct Scaling {
    /// Of slacks alone.
    pub single: Vec<f64>,
    /// Of triples: the matrix.
    triples: Vec<[[f64; 3]; 3]>,
    /// The inverse of its square.
    pub inverse_square: Vec<[[f64; 3]; 3]>,
}

impl Scaling {
    /// That changes nothing.
    pub fn unit(cones: &Cones) -> Self {
        let unit = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
        let count = cones.triples().count();
        Scaling {
            single: vec![1.0; cones.single],
            triples: vec![unit; count],
            inverse_square: vec![unit; count],
        }
    }

    /// Of slacks and prices; `None` if one is outside its cone.
    pub fn of(cones: &Cones, s: &[f64], z: &[f64]) -> Option<Self> {
        let inside = |v: &f64| *v > 0.0;
        if !(s[..cones.single].iter().all(inside) && z[..cones.single].iter().all(inside)) {
            return None;
        }
        let pairs = s[..cones.single].iter().zip(z);
        let mut scaling = Scaling {
            single: pairs.map(|(s, z)| (s / z).sqrt()).collect(),
            triples: Vec::new(),
            inverse_square: Vec::new(),
        };
        for i in cones.triples() {
            let length = |v: &[f64]| {
                let rest = v[i] * v[i] - v[i + 1] * v[i + 1] - v[i + 2] * v[i + 2];
                (rest > 0.0 && v[i] > 0.0).then(|| rest.sqrt())
            };
            let (ls, lz) = (length(s)?, length(z)?);
            let [s, z] = [(s, ls), (z, lz)].map(|(v, l)| [0, 1, 2].map(|k| v[i + k] / l));
            let both = s[0] * z[0] + s[1] * z[1] + s[2] * z[2];
            let half = 0.5 / (0.5 * (1.0 + both)).sqrt();
            let q = [1, 2].map(|k| half * (s[k] - z[k]));
            // So, and not as half of the sum, the inverse below is one.
            let a = (1.0 + q[0] * q[0] + q[1] * q[1]).sqrt();
            let eta = (ls / lz).sqrt();
            let matrix = |sign: f64, eta: f64| {
                let of = |j: usize, k: usize| {
                    let unit = f64::from(u8::from(j == k));
                    unit + q[j] * q[k] / (1.0 + a)
                };
                let [u, v] = [sign * q[0], sign * q[1]];
                let rows = [[a, u, v], [u, of(0, 0), of(0, 1)], [v, of(1, 0), of(1, 1)]];
                rows.map(|row| row.map(|x| x * eta))
            };
            scaling.triples.push(matrix(1.0, eta));
            let inverse = matrix(-1.0, 1.0 / eta);
            let square = [0, 1, 2]
                .map(|j| [0, 1, 2].map(|k| (0..3).map(|l| inverse[j][l] * inverse[l][k]).sum()));
            scaling.inverse_square.push(square);
        }
        Some(scaling)
    }

    /// The scaling of a vector.
    pub fn times(&self, v: &[f64]) -> Vec<f64> {
        let mut out = Vec::with_capacity(v.len());
        out.extend(self.single.iter().zip(v).map(|(w, v)| w * v));
        let triples = v[self.single.len()..].chunks_exact(3);
        for (m, v) in self.triples.iter().zip(triples) {
            out.extend(apply(m, v));
        }
        out
    }

    /// The inverse of its square, times a vector.
    pub fn inverse_square_times(&self, v: &[f64]) -> Vec<f64> {
        let mut out = Vec::with_capacity(v.len());
        out.extend(self.single.iter().zip(v).map(|(w, v)| v / (w * w)));
        let triples = v[self.single.len()..].chunks_exact(3);
        for (m, v) in self.inverse_square.iter().zip(triples) {
            out.extend(apply(m, v));
        }
        out
    }
}

fn apply(m: &[[f64; 3]; 3], v: &[f64]) -> [f64; 3] {
    m.map(|row| row[0] * v[0] + row[1] * v[1] + row[2] * v[2])
}
