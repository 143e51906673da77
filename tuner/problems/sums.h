// What a problem's reference is written in: the steps of a sum, plain in float32, or EXACT, which is in float64 and
// rounded once (on a device without float64: with the error of each step carried along, Kahan).
#undef REFERENCE
#undef SUM
#undef ADD_PRODUCT
#ifndef EXACT
#define REFERENCE reference
#define SUM(sum) float sum = 0.0f
#define ADD_PRODUCT(sum, a, b) sum += (a) * (b)
#elif defined(DOUBLES)
#define REFERENCE exact_reference
#define SUM(sum) double sum = 0.0
#define ADD_PRODUCT(sum, a, b) sum += (double)(a) * (double)(b)
#else
#define REFERENCE exact_reference
#define SUM(sum) float sum = 0.0f, sum##_lost = 0.0f
#define ADD_PRODUCT(sum, a, b)                                                    \
    {                                                                             \
        volatile float term = (a) * (b) - sum##_lost, next = sum + term;          \
        sum##_lost = (next - sum) - term;                                         \
        sum = next;                                                               \
    }
#endif
