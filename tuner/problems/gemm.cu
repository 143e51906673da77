// The plain product: one element of c a step, summed in the order of k; sizes are run-time arguments.
__global__ void REFERENCE(GLOBAL const float *a, GLOBAL const float *b, GLOBAL float *c, int M, int N, int K)
{
    EACH(i, (ulong)M * N)
    {
        ulong row = i / N, column = i % N;
        SUM(sum);
        for (int k = 0; k < K; k++) ADD_PRODUCT(sum, a[row * K + k], b[(ulong)k * N + column]);
        c[i] = (float)sum;
    }
}
