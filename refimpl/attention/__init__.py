r"""Sakamoto & Sato 2024, "Benign or Not-Benign Overfitting in Token Selection of Attention Mechanism".

Numbering: arXiv 2409.17625v1. `python -m refimpl show attention Lemma D.1` finds the code and tests of a statement.
Read in this order; tests/attention/ has a test_MODULE for each, tests/calculus/ softmax (3.1, A.1) and the losses.
The paper is in the modules of this package:

    section       module            main functions
    3.2, App. A.1 model             self_attention, output, loss, loss_gradient_p, loss_gradient_W, loss_gradient_nu
    3.3, 3.5      setting           Setting: the sizes that data, runs, theory and figures all take
    3.3           data              draw, draw_experiment, with_flips, signals, assumption_a, signal_of, streams
    3.4, G        head              linear_head, population_direction, multiclass_direction
    3.4, Lem. A.6 descent           descend_p, descend_W
    3.5, Lem. A.8 conditions        assumptions, strong_assumptions, equation_45, implied_slack, smallest_setting
    Lem. A.7      smoothness        hessian, smoothness_constants, descent_sides, smoothness_on_good_runs
    B             concentration     norm_range, noise_product_bound, signal_product_bound, class_counts, missing_sign
    Lemma A.1, C  good_run          constants, good_run, good_test, failure_bounds
    Lemma C.2     scores            ScoreScale, score_scale, good_run_scale, token_score_range, score_spread
    4.1, C        existence         direction, solution, least_scale, logit_bounds, requirements
    4, Def. 4.1   uncertainty       uncertainty, eq_9, eq_10, eq_11, eq_13
    Lemma D.1     decomposition     noise_update, signal_update, recursion, reconstruct, decompose
    Cor. D.1-D.6  updates           noise_update_range, signal_update_range, loss_derivative_ratio, noise_update_total
    A.2-4, D.3    convergence       clean_order, noisy_order, picked_token, limit_margins, gradient_ceiling
    A.5, E        generalization    signal_bounds, benign_conditions, norm_floor, uniform_error, harmful_floor
    F             multiclass        outputs, loss, loss_gradient_p, recursion, overfit
    4.3, H        margin            separate, kkt, angle, mismatch
    5, I          experiments       figure_1, figure_3, grid_row

How it is computed is ours, in runs/ (tests/attention/runs/); of the paper's modules only experiments builds on it:

    runs/gram       descend: the same run at a cost that does not depend on d
    runs/flow       flow, flow_in_q, late_direction: gradient flow in logarithmic time
    runs/fresh      law, draw: a test token as two numbers
    runs/wishart    draw_training: training tokens without their d
    runs/growth     growth, gap_time: the law of one sample's logit gap
    runs/trials     run, generalize: one training set in Theorem 4.2's regime, and fresh samples

Glossary (code, symbol, place, shape):

    setting       n, T, d, |mu|, rho, eta, ...   3.3, 3.5  setting.Setting
    X             X^{(i)}, tokens x_t            3.2       (n, T, d)
    Y, Y_star     Y, Y*                          Def. 3.1  (n,), -1 or +1
    noise         epsilon_t^{(i)}                Def. 3.1  (n, T, d)
    roles         R, W_{+1}, W_{-1}, I           Def. 3.1  (n, T): 2, +1, -1, 0
    relevant      |R|; also the mask of R        Def. 3.1  a number; (n, T)
    weak          |W|                            Def. 3.1
    mu            mu_{+1}, mu_{-1}               Def. 3.1  (2, d); index 0 is class +1, 1 is -1
    Sigma         diagonal of Sigma              Def. 3.1  (d,) or one number
    weak_scale    rho, the scale of weak tokens  Def. 3.1
    noise_rate    eta                            Def. 3.1
    nu            nu                             3.2       (d,)
    p, W          p, W                           3.2       (d,), (d, d); W None is the identity
    q             W^T p                          ours      (d,)
    z             X W^T p, the logits            3.2       (n, T)
    s             S(X W^T p)                     3.2       (n, T)
    gamma         gamma_t = nu^T x_t             3.2       (n, T)
    alpha, steps  alpha, tau                     3.4
    C, delta, log C, delta, log(Tn/delta)        3.5
    k             1/C', c_1, c_2, c'             A.1       good_run.Constants
    scale         a = kappa |mu|^2, e            C.2       scores.ScoreScale
    noisy, tokens N, u_j                         4.1       (|N|,), (|N|,)
    beta          beta_j                         4.1       (|N|,)
    lam, rho      lambda_c, rho_{i,t}            D.1       (2,), (n, T)
    carried       what x_t has of each signal    D.1       (n, T, 2)
    m             (alpha/n) |l'_i|               D.1       (n,)
    M             X X^T over all tokens          ours      (nT, nT)
    u, log_times  log(t V / n), V = max |x|^2    ours
    flips         how many labels are wrong      5         a number, or a pair for Y* = +1, -1
"""
