r"""Li et al. 2025, "How Can Mamba Learn In Context with Outliers and Generalize Provably?", arXiv 2510.00399.

Reading table, in the paper's order; the tests are in tests/mamba, test_gating and test_losses in tests/calculus.

    section                     module           main functions                                      tests 2, 11.1:
    Eqs. 1, 3          model            recurrence, unrolled, gathered, attention, output   test_model 2, 11.2, 11.3
    model            loss_gradient, output_gradient_W_C,                 test_model output_gradient_W_B,
    output_gradient_w 2: the hinge                calculus.losses  hinge, hinge_derivative, sigmoid
    test_losses 2, 11.3, Lemma 6            calculus.gating  gate, gate_jacobian, gate_vjp, distance_mass
    test_gating 3.2, Condition 1            tasks            orthogonal_patterns, all_tasks, cycle, condition_1
    test_prompts 3.2: Eqs. 2, 4, 5           prompts          training_prompts, test_prompts, tokens
    test_prompts 2, 8.3                      training         initial, start, sgd, error
    test_training (ours)                      patterns         axes, encode, forward, gradient
    test_patterns 3.5: Corollaries            mechanism        attention_mass, outlier_gate, local_bias
    test_mechanism 3.3, 3.4, 10                guarantees       theorem_1_conditions, ..., few_clean, many_flipped
    test_guarantees Lemma 3, Eqs. 15-17, 21-22  dynamics         laplacian, growth_rate, mu_block, step_noise
    test_dynamics Lemmas 4, 5, Eqs. 18-20,    gate_dynamics    gate_step, first_phase, logarithmic
    test_gate_dynamics 23-34 (ours)                      scaling          iterations_law, iterations_needed,
    exponent         test_guarantees (ours)                      boundaries       Probe, boundary
    test_guarantees 3.1, 4.1: Figure 2          experiments      figure_2, through_training, gate_values
    test_experiments 9: Lemmas 1, 2              concentration    upper_tail, lower_tail, sub_gaussian_norm
    test_concentration 12                          recurrences      recurrence, gated_sum, chunked, output
    test_recurrences 12, Eq. 35                  decays           mamba2_decay, mamba2_gradient, own_gate_gradient
    test_recurrences 12 (ours)                   architectures    LAYERS, gradient, trained, errors
    test_recurrences 13: Eq. 36                  multiclass       block_prompt, output, loss_gradient, run
    test_multiclass 14                          regression       regression_prompts, loss_gradient, label_average
    test_regression

Read model first, then prompts; patterns says why training may forget d. Data flow of a training step:
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
    s              p_i^T W_B^T W_C p_query   Eq. 3          (B, l+1) (in Prompts: which outlier)
    F, z           F(\Psi; P), z             Eq. 3          (B,)
    dF             d loss / d F              Section 11.2   (B,), -z/B where z F < 1
    mu, nu, v      \mu_j, \nu_k, v*_s        Section 3.2    (M1, d), (M2, d), (V, d)
    kappa_a        \kappa_a                  Eq. 4          float; magnitude: \kappa_a' of Eq. 5
    p_a, alpha     p_a, \alpha               Eqs. 4, 5      outlier probability in training, in testing
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
    L              dF / d ln \gamma          Section 12     (..., l+1, c)
    theta          the gate's parameters     architectures  in regression: f's coefficients (B, M1)
    D              (ours)                    patterns       M1 + M2 + V, how many patterns there are
    E              (ours)                    patterns       (D, d), the unit patterns

Where the paper is silent (h_0, m, K, the outliers' norm, eta, B, T, kappa_a'), each choice stands in the
docstring that makes it: prompts, training.Setting, training.initial, experiments.Case.
"""
