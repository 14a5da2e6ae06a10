# The plots of retrieval over numbers of keys, from the tables beside this file:
#   cd docs/figures && gnuplot capacity.gp
set datafile separator ","
set terminal svg size 720,440 font "sans,12" background rgb "white"
set key outside right samplen 3
set xlabel "keys"
set ylabel "loss of the test"
set grid ytics lc rgb "#e0e0e0"
loss(memory, column) = strcol(2) eq memory ? column : NaN
guess(keys) = (1 - 1 / keys) / 2
set samples 300

set output "capacity.svg"
set xrange [0:620]
set xtics 100
set yrange [0:0.8]
memories = "softmax linear favor-64 favor-128 favor-512 dpfp-1 dpfp-2 dpfp-3"
titles = "softmax 'linear (64)' 'favor-64 (128)' 'favor-128 (256)' 'favor-512 (1024)' 'dpfp-1 (128)' 'dpfp-2 (256)' \
  'dpfp-3 (384)'"
colours = "#000000 #2ca02c #fdae6b #f16913 #a63603 #9ecae1 #4292c6 #08306b"
plot for [i=1:words(memories)] "capacity.csv" using 1:(loss(word(memories, i), $3)) with linespoints \
       lc rgb word(colours, i) pt 7 ps 0.4 title word(titles, i), \
     for [i=1:words(memories)] "capacity.csv" using 1:(loss(word(memories, i), $4)) with points \
       lc rgb word(colours, i) pt 6 ps 0.9 notitle, \
     NaN with points lc rgb "#606060" pt 6 ps 0.9 title "public code", \
     [20:620] guess(x) with lines lc rgb "#909090" dt 3 title "a guess"

set output "update_rules.svg"
set xrange [10:210]
set xtics 20, 20
set logscale y
set yrange [5e-5:1]
set format y "10^{%T}"
memories = "softmax linear-sum linear-delta dpfp-1-sum dpfp-1-delta dpfp-2-sum dpfp-2-delta"
colours = "#000000 #2ca02c #2ca02c #9ecae1 #9ecae1 #08306b #08306b"
dashes = "1 2 1 2 1 2 1"
symbols = "4 7 7 7 7 7 7"
sizes = "0.9 0.4 0.4 0.4 0.4 0.4 0.4"
plot for [i=1:words(memories)] "update_rules.csv" using 1:(loss(word(memories, i), $3)) with linespoints \
       lc rgb word(colours, i) dt int(word(dashes, i)) pt int(word(symbols, i)) \
       ps real(word(sizes, i)) title word(memories, i), \
     for [i=1:words(memories)] "update_rules.csv" using 1:(loss(word(memories, i), $4)) with points \
       lc rgb word(colours, i) pt 6 ps 0.9 notitle, \
     NaN with points lc rgb "#606060" pt 6 ps 0.9 title "public code", \
     [20:210] guess(x) with lines lc rgb "#909090" dt 3 title "a guess"
