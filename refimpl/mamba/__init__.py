r"""Li et al. 2025, "How Can Mamba Learn In Context with Outliers and Generalize Provably?", arXiv 2510.00399.

Reading table, in the paper's order. Each module X has its tests in tests/mamba/test_X.py, those of runs/ in
tests/mamba/runs/, gating and losses in tests/calculus/.

    section                     module           main functions
    2, 11: Eq. 3, gradients     model            attention, output, loss, loss_gradient, output_gradient_W_C,
                                                 output_gradient_W_B, output_gradient_w
    2: the hinge                calculus.losses  hinge, hinge_derivative, sigmoid
    2, 11.3, Lemma 6            calculus.gating  gate, gate_jacobian, gate_vjp, distance_mass
    2, 11.1: Eq. 1              state_space      recurrence, unrolled, gathered
    3.2, Condition 1            tasks            orthogonal_patterns, all_tasks, cycle, condition_1
    2 to 4.1, Definition 2      setting          Setting, Testing
    3.2: Eqs. 2, 4, 5           prompts          training_prompts, test_prompts, tokens
    2, 8.3                      training         initial, sgd, error
    3.3, 3.4: Theorems 1-4      guarantees       theorem_1_conditions, theorem_2_conditions, ...
    3.3, 3.4, 10.3, 10.4        votes            no_clean_example, few_clean, many_flipped, flipped_error
    3.5: Corollaries 1, 2       mechanism        attention_mass, outlier_gate, local_bias
    3.1, 4.1: Figure 2          experiments      figure_2, through_training, gate_values, by_distance
    9: Lemmas 1, 2              concentration    upper_tail, lower_tail, sub_gaussian_norm, hoeffding
    11.2, Lemma 3               dynamics         laplacian, growth_rate, mu_block, step_noise
    11.3, 11.4, Lemmas 4, 5     gate_dynamics    gate_step, first_phase, logarithmic
    11.3, 11.4: Eqs. 18-20, 31  gate_bounds      initial_gate, nearest_clean_gate, clean_product
    12                          recurrences      recurrence, gated_sum, chunked, output
    12, Eq. 35                  decays           mamba2_decay, mamba2_gradient, own_gate_gradient
    13: Eq. 36                  multiclass       block_prompt, output, loss_gradient
    14                          regression       regression_prompts, loss_gradient, label_average

How it is computed, which is ours:

    runs.patterns               pattern coordinates: encode, forward, gradient, batches
    runs.bench                  Layer, train, test_errors: any layer trained and tested
    runs.architectures          the recurrences of Section 12 as layers
    runs.extensions             Sections 13 and 14 trained and tested
    runs.scaling                iterations_law, iterations_needed, examples_needed
    runs.boundaries             the error on both sides of the conditions of Theorems 2 and 4

Read model first, then prompts; runs.patterns says why training may forget d. Data flow of a training step:
rng -> Prompts (indices) -> P (patterns.encode, or prompts.tokens) -> gradient -> Weights.

Glossary.

    code           symbol                    place          shape, or what it is
    P              P, row i = p_i^T          Eq. 2          (B, l+1, d+1), label last, query last
    W_B, W_C       W_B, W_C                  Section 2      (m, d+1), in pattern coordinates (D, D+1)
    w              w = w_{d_0}               Section 2      (d+1,), None for the linear Transformer
    W              W = (w_1, ..., w_{d_0})   Section 2      (d+1, d+1), used by Eq. 1 alone
    Psi            \Psi = {W_B, W_C, w}      Section 2      Weights
    a              w^T p_i                   Eq. 3          (B, l+1), the query last
    G              G_{i,l+1}(w)              Eq. 3          (B, l+1)
    scores         p_i^T W_B^T W_C p_query   Eq. 3          (B, l+1)
    s              s of v*_s                 Eq. 4          (B, l+1), which outlier an example carries, -1 for none
    F, z           F(\Psi; P), z             Eq. 3          (B,)
    dF             d loss / d F              Section 11.2   (B,), -z/B where z F < 1
    mu, nu, v      \mu_j, \nu_k, v*_s        Section 3.2    (M1, d), (M2, d), (V, d)
    kappa_a        \kappa_a, \kappa_a'       Eqs. 4, 5      float, in a Setting; \kappa_a' in a Testing
    p_a, alpha     p_a, \alpha               Eqs. 4, 5      outlier probability in training, in testing
    l              l_tr, l_ts                Section 3.2    examples in a prompt, in a Setting; in a Testing
    mixture        \lambda                   Theorem 2(a)   (S, V)
    tasks          \mathcal T_{tr}           Condition 1    (n, 2): a is labelled +1, b is labelled -1
    beta, delta    \beta, \delta             Sections 3.2, 2
    eta, B, steps  \eta, B, T                Section 8.3
    L, N           (ours)                    Lemma 3        (M1, M1), normalised Laplacian of the task multigraph
    S              E sum_i G_i 1[clean]      Lemma 3        clean_mass, what the gates give clean examples
    rate           \eta r                    Lemma 3        r = \beta^2 S / (2 M_1), growth_rate
    drive          (ours)                    Lemma 4        attention on the query's pattern less the partner's
    epsilon, c     \epsilon; the constants   Theorem 1      c = Constants(...)
    decay          \gamma_i                  Section 12     (l,), or (l, d0, 1) rows of h, or (l, 1, m) columns;
                                                           in F (..., l+1, c), c = 1 or m
    x              y_i k_i q                 Section 12     (..., l+1, c), the summands of F without their gates
    t              G x                       Section 12     (..., l+1, c), with them
    theta          the gate's parameters     Section 12     in regression: f's coefficients (B, M1)
    D              (ours)                    patterns       M1 + M2 + V, how many patterns there are
    E              (ours)                    patterns       (D, d), the unit patterns

Where the paper is silent (h_0, m, K, the outliers' norm, eta, B, T, kappa_a'), each choice stands in the
docstring that makes it: state_space, setting, training.initial.
"""
