// The plain convolution: one output element a step, summed in the order c, p, q; sizes are run-time arguments.
__global__ void REFERENCE(GLOBAL const float *x, GLOBAL const float *w, GLOBAL float *y, int B, int C, int H, int W, int M,
                          int K)
{
    int H_out = H - K + 1, W_out = W - K + 1;
    ulong n = (ulong)B * M * H_out * W_out;
    EACH(i, n)
    {
        int column = i % W_out, row = i / W_out % H_out, m = i / ((ulong)W_out * H_out) % M;
        ulong b = i / ((ulong)W_out * H_out * M);
        SUM(sum);
        for (int c = 0; c < C; c++)
            for (int p = 0; p < K; p++)
                for (int q = 0; q < K; q++)
                    ADD_PRODUCT(sum, x[((b * C + c) * H + row + p) * W + column + q],
                                w[((m * C + c) * K + p) * K + q]);
        y[i] = (float)sum;
    }
}

#ifdef KERNELS_OF_ITS_KIND
// out = pool x pool maximum of tanh(in) (or ReLU); planes = B * channels, in is height x width a plane
__global__ void activate_and_pool(GLOBAL const float *in, GLOBAL float *out, ulong planes, int height, int width, int pool,
                                  int relu)
{
    int rows = height / pool, columns = width / pool;
    EACH(i, planes * rows * columns)
    {
        int column = i % columns, row = i / columns % rows;
        ulong plane = i / ((ulong)columns * rows);
        float best = -INFINITY;
        for (int r = 0; r < pool; r++)
            for (int c = 0; c < pool; c++)
                best = fmax(best, in[(plane * height + row * pool + r) * width + column * pool + c]);
        out[i] = relu ? fmax(best, 0.0f) : tanh(best);
    }
}
#endif
